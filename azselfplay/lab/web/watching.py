"""Live figures: every two seconds each watched run is read once, and the figures are sent to all its
watchers.

Files are read in a thread, and only the parts that have been added. azserver is asked for its STATUS over one
connection, like any watcher. Runs without watchers are not read.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from functools import lru_cache
from http import HTTPStatus
from typing import Any

import msgspec

from azselfplay.diagnostics.advice import ADVICE
from azselfplay.host.exits import Fatal
from azselfplay.host.runs import RunFolder, shown_settings
from azselfplay.host.view import rows as as_rows
from azselfplay.host.view import trainer_of
from azselfplay.lab.report.curves import Curves
from azselfplay.lab.report.strength import strength_of
from azselfplay.lab.web.guarding import PageError, page_error
from azselfplay.lab.web.players import Players
from azselfplay.lab.web.runs import RunState, summary
from azselfplay.link.connection import Connection, ConnectionSettings
from azselfplay.link.keys import address_in, own_server_keys
from azselfplay.link.sockets import Context, new_context
from protocol.messages import PROTOCOL_VERSION, GetStatus, Hello, Message, Status

log = logging.getLogger(__name__)

EVERY = 2.0
"""Seconds between two looks."""

CACHED_RUNS = 8
"""Number of runs whose curves stay in memory after the last page is closed."""

OLD = 10.0
"""Seconds after which figures are out of date."""

Reading = Callable[[Callable[[], dict[str, Any]]], Awaitable[dict[str, Any]]]
"""Runs a function in a thread that reads files."""

Updates = asyncio.Queue[bytes | None]
"""The newest figures as JSON, for one page, and None at the end: two entries at most."""


class Files:
    """The files of one run that are read, by one thread at a time. `lock`: wait here, not in a thread, of
    which there are few; a reading whose waiting coroutine was cancelled goes on in its thread."""

    def __init__(self, run: RunFolder) -> None:
        self.run = run
        self.lock = asyncio.Lock()
        self._turn = threading.Lock()
        self.curves = Curves(run.figures_log)
        self.players = Players(run.games)

    def refresh(self) -> dict[str, Any]:
        """Read new data. Returns the present figures. Raises PageError if the run is gone."""
        if not (self.run.about.is_file() or self.run.games.is_file()):
            raise PageError(
                f"Run {self.run.name} is gone: it is being deleted, or was moved.", HTTPStatus.GONE
            )
        with self._turn:
            self.curves.refresh()
            about = summary(self.run)
            return {
                "summary": about,
                "alerts": [_with_advice(text) for text in about["alerts"]],
                "players": self.players.rates(None if about["running"] else about["changed"]),
                "row": self.curves.rows[-1] if self.curves.rows else None,
            }

    def history(self) -> dict[str, Any]:
        """Return all curves, and the strength of the networks."""
        with self._turn:
            self.curves.refresh()
            return {**self.curves.history(self.run.read_architecture()), "strength": strength_of(self.run)}


def _with_advice(text: str) -> dict[str, str]:
    """Return an alert of the trainer, `name: what was seen`, with what to do, the likely cause and what else
    to change."""
    name, _, seen = text.partition(": ")
    advice = ADVICE.get(name)
    found = {"name": name, "seen": seen}
    if advice is None:  # from a newer trainer
        return found
    return {**found, "first": advice.first, "cause": advice.cause, "change": advice.change}


def newest_alerts(written: list[dict[str, str]], live: Mapping[str, Any] | None) -> list[dict[str, str]]:
    """Return the alerts that azserver reports, as everywhere else; the alerts `written` in the run's folder
    are older and count only without these."""
    newer = trainer_of(live or {}).get("alerts")
    return written if newer is None else [_with_advice(str(text)) for text in newer]


class Watching:
    """All watched runs. Its tasks belong to `group`; `reading` runs a function that reads files."""

    def __init__(self, group: asyncio.TaskGroup, reading: Reading) -> None:
        self._group = group
        self._reading = reading
        self._watched: dict[str, _Watched] = {}
        self._opened = lru_cache(CACHED_RUNS)(lambda path: Files(RunFolder(path.parent, path.name)))
        """Files by the folder of their run."""

    def files_of(self, run: RunFolder) -> Files:
        """Return the files of a run. Those of an unwatched run are dropped if others were used since."""
        watched = self._watched.get(run.name)
        return watched.files if watched is not None else self._opened(run.path)

    async def history(self, run: RunFolder) -> dict[str, Any]:
        """Return the curves of a run up to now."""
        files = self.files_of(run)
        async with files.lock:
            return await self._reading(files.history)

    @asynccontextmanager
    async def watch(self, run: RunFolder) -> AsyncIterator[Updates]:
        """Subscribe to a run's figures."""
        watched = self._watched.get(run.name)
        if watched is None:
            watched = self._watched[run.name] = _Watched(self.files_of(run), self._reading, self._group)
        updates: Updates = asyncio.Queue(2)
        # A page that is opened later gets the newest figures at once.
        if watched.newest:
            updates.put_nowait(watched.newest)
        watched.subscribers.add(updates)
        try:
            yield updates
        finally:
            watched.subscribers.discard(updates)
            if not watched.subscribers and self._watched.get(run.name) is watched:
                del self._watched[run.name]
                watched.task.cancel()

    async def close(self) -> None:
        """Send the last figures to every page, then end its stream. azserver closes its pages at the end of a
        run, when the trainer has just written these figures."""
        watched = list(self._watched.values())
        for one in watched:
            one.task.cancel()
        await asyncio.gather(*(one.task for one in watched), return_exceptions=True)
        for one in watched:
            await one.publish_last()


class _Watched:
    """A watched run, and the task that reads it."""

    def __init__(self, files: Files, reading: Reading, group: asyncio.TaskGroup) -> None:
        self.subscribers: set[Updates] = set()
        self.newest = b""
        self.files = files
        self._reading = reading
        self._was_running = False
        self.task = group.create_task(self._watch(group))

    async def _watch(self, group: asyncio.TaskGroup) -> None:
        async with aclosing(ServerFigures(self.files.run, group)) as server:
            while True:
                self._publish(await self._refresh(server))
                await asyncio.sleep(EVERY)

    def _publish(self, figures: dict[str, Any]) -> None:
        self.newest = msgspec.json.encode(figures)
        for updates in self.subscribers:
            # Figures that a slow page has not taken are replaced by newer ones.
            while not updates.empty():
                updates.get_nowait()
            updates.put_nowait(self.newest)

    async def publish_last(self) -> None:
        """Send the present figures, marked as the last ones."""
        self._publish({**await self._refresh(None), "last": True})
        for updates in self.subscribers:
            updates.put_nowait(None)

    async def _refresh(self, server: ServerFigures | None) -> dict[str, Any]:
        """Return the present figures, or what is wrong; without a server, return the figures of the files."""
        try:
            async with self.files.lock:
                figures = await self._reading(self.files.refresh)
            about = figures["summary"]
            if self._was_running and not about["running"]:
                how = "has ended" if about["state"] == RunState.ENDED else "does not answer any more"
                log.info("run %s %s; its pages show the last figures", about["name"], how)
            self._was_running = about["running"]
            if server is None:
                return {**figures, "server": "", "live": None, "lines": None}
            live = await server.ask(running=about["running"])
            lines = as_rows(live) if live else None
            figures["alerts"] = newest_alerts(figures["alerts"], live)
            return {**figures, "server": server.state, "live": live, "lines": lines}
        except Exception as error:
            return {"error": page_error(error, f"a look at run {self.files.run.name}").text}


class ServerFigures:
    """A connection to the run's azserver while azserver runs, with tasks in `group`. `aclose` when done."""

    def __init__(self, run: RunFolder, group: asyncio.TaskGroup) -> None:
        self._group = group
        self.state = "The run is not running."
        """Why there are no figures, for people; "" while there are."""
        self._run = run
        self._figures: dict[str, Any] = {}
        self._received_at = -OLD
        self._settings: dict[str, Any] = {}
        """Settings of the run with which the connection was made."""
        self._context: Context | None = None
        self._connection: Connection | None = None
        self._task: asyncio.Task[None] | None = None

    async def ask(self, *, running: bool) -> dict[str, Any] | None:
        """Return the latest figures, if there are any, and request new ones."""
        if not running:
            await self.aclose()
            self.state = "The run is not running."
            return None
        settings = shown_settings(self._run.config)
        address = address_in(settings)
        if address is None:
            away = self._run.kept_elsewhere("azserver")
            why = f"according to {self._run.config}"
            self.state = f"No live figures: {away}." if away else f"No azserver listens for this run, {why}."
            return None
        refused = self._task is not None and self._task.done()
        if refused or settings != self._settings:
            await self.aclose()
        if self._context is None:
            self._settings = settings
            if not refused:  # else the reason stays until there are figures
                self.state = f"Asking azserver at {address.server} ..."
            try:
                keys = ConnectionSettings(keys=own_server_keys(settings))
            except Fatal as error:
                self.state = str(error)
                return None
            self._context = new_context()
            hello = Hello(PROTOCOL_VERSION, "watcher", f"azplay web {os.getpid()}")
            self._connection = Connection(
                self._context, address.leaves, hello, on_message=self._on_message, settings=keys
            )
            self._task = self._group.create_task(self._run_connection(self._connection))
        if self._connection is not None:
            self._connection.send(GetStatus())
        if time.monotonic() - self._received_at > OLD:
            # A more exact reason may already be known: a refusal, or wrong keys.
            self.state = self.state or f"azserver does not answer at {address.server}."
            return None
        # The port may have been given to another run since.
        if self._figures.get("run") != self._run.name:
            self.state = f"Another run answers at {address.server}: {self._figures.get('run')}."
            return None
        self.state = ""
        return self._figures

    async def _run_connection(self, connection: Connection) -> None:
        try:
            await connection.run()
        except Fatal as error:
            self.state = str(error)
            self._connection = None

    def _on_message(self, message: Message, frames: list[memoryview]) -> None:
        if isinstance(message, Status) and not frames:
            self._figures, self._received_at = message.figures, time.monotonic()
            self.state = ""

    async def aclose(self) -> None:
        """Close the connection. The next `ask` may connect again."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._context is not None:
            self._context.term()
        self._task = self._context = self._connection = None
        self._figures, self._received_at = {}, -OLD
