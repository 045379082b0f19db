"""Live figures: every two seconds one look at each watched run, sent to all its watchers.

Files are read in a thread and only where they have grown; the server is asked for its STATUS over one
connection. Runs without watchers are not read.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, TypeVar

import msgspec

from diagnostics.advice import advice_on
from runtime.figures_text import rows as as_rows
from runtime.runs import RunFolder, shown_settings
from web.asking import ServerFigures
from web.curves import Curves, charts
from web.next_weights import Pace, seconds_to_next
from web.players import Players
from web.run_list import summary
from web.run_state import State, locked_inodes
from web.trouble import FAULT, Trouble, trouble_of

log = logging.getLogger(__name__)

T = TypeVar("T")

EVERY = 2.0
"""Seconds between two looks."""
KEPT = 8
"""Runs whose curves stay in memory after the last page is closed."""

Reading = Callable[[Callable[[], T]], Awaitable[T]]


@dataclass
class Files:
    """What is read of one run. Only one thread at a time may use it: `lock` is for the event loop."""

    run: RunFolder
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        self.curves = Curves(self.run.figures_log)
        self.players = Players(self.run.games)

    def look(self) -> dict[str, Any]:
        """Read what is new. Returns the present figures. Raises Trouble if the run is gone."""
        if not (self.run.about.is_file() or self.run.games.is_file()):
            self.players.close()
            raise Trouble(f"Run {self.run.name} is gone: it is being deleted, or was moved.", HTTPStatus.GONE)
        self.curves.look()
        about = summary(self.run, locked_inodes())
        pace = Pace.of(shown_settings(self.run.trainer_config))
        to_next = seconds_to_next(self.curves.rows, pace, time.time()) if about["running"] else None
        return {
            "summary": about,
            "alerts": [_with_advice(text) for text in about["alerts"]],
            "players": self.players.rates(None if about["running"] else about["changed"]),
            "next_weights_s": to_next,
            "row": self.curves.rows[-1] if self.curves.rows else None,
        }

    def history(self) -> dict[str, Any]:
        """All curves."""
        self.curves.look()
        return {"charts": charts(list(self.curves.named)), "columns": self.curves.as_columns()}


def _with_advice(text: str) -> dict[str, str]:
    """An alert of the trainer, `name: what was seen`, with what to do, its likely cause and what else to
    change."""
    name, _, seen = text.partition(": ")
    advice = advice_on(name)
    found = {"name": name, "seen": seen}
    if advice is None:
        return found
    return {**found, "first": advice.first, "cause": advice.cause, "change": advice.change}


def newest_alerts(written: list[dict[str, str]], live: Mapping[str, Any] | None) -> list[dict[str, str]]:
    """The alerts that azserver reports, like everywhere else; those `written` in the run's folder are
    older."""
    told = ((live or {}).get("trainer") or {}).get("alerts")
    return written if told is None else [_with_advice(str(text)) for text in told]


class Watching:
    """All watched runs. Its tasks belong to `group`."""

    def __init__(self, group: asyncio.TaskGroup) -> None:
        self._group = group
        self._files: dict[str, Files] = {}
        self._watched: dict[str, _Watched] = {}

    @property
    def watched(self) -> frozenset[str]:
        """Names of the runs that are being watched."""
        return frozenset(self._watched)

    def files_of(self, run: RunFolder) -> Files:
        """The files of a run. Those of the run that was unused for longest are dropped."""
        found = self._files.pop(run.name, None) or Files(run)
        self._files[run.name] = found
        idle = [name for name in self._files if name not in self._watched and name != run.name]
        for name in idle[: max(0, len(self._files) - KEPT)]:
            files = self._files[name]
            if not files.lock.locked():
                del self._files[name]
                files.players.close()
        return found

    async def history(self, run: RunFolder, reading: Reading[Any]) -> dict[str, Any]:
        """The curves of a run up to now."""
        files = self.files_of(run)
        async with files.lock:
            found: dict[str, Any] = await reading(files.history)
        return found

    @asynccontextmanager
    async def watch(self, run: RunFolder, reading: Reading[Any]) -> AsyncIterator[Updates]:
        """Subscribe to a run's figures. How many may is bounded by their connections (`guarding.Visitor`)."""
        watched = self._watched.get(run.name)
        if watched is None:
            watched = self._watched[run.name] = _Watched(self.files_of(run), reading, self._group)
        updates = Updates(watched.newest)
        watched.told.add(updates)
        try:
            yield updates
        finally:
            watched.told.discard(updates)
            if not watched.told and self._watched.get(run.name) is watched:
                del self._watched[run.name]
                watched.task.cancel()
                watched.files.players.close()  # else a deleted run's store would keep its space on the disk

    async def close(self) -> None:
        """Send every page the last figures, then end its stream: azserver ends its pages at the end of a run,
        when the trainer has just written them."""
        watched = list(self._watched.values())
        for one in watched:
            one.task.cancel()
        await asyncio.gather(*(one.task for one in watched), return_exceptions=True)
        for one in watched:
            await one.look_for_the_last_time()
        for files in self._files.values():
            files.players.close()


class Updates:
    """The newest figures, for one page. Figures that a slow page has not taken are replaced by newer ones."""

    def __init__(self, newest: bytes) -> None:
        self._newest = newest
        self._is_new = bool(newest)
        self._ended = False
        self._changed = asyncio.Event()
        if newest:
            self._changed.set()

    def put(self, figures: bytes) -> None:
        self._newest, self._is_new = figures, True
        self._changed.set()

    def end(self) -> None:
        self._ended = True
        self._changed.set()

    async def next(self) -> bytes | None:
        """The next figures as JSON, as soon as there are newer ones; None at the end."""
        await self._changed.wait()
        if not self._is_new:
            return None
        self._is_new = False
        if not self._ended:
            self._changed.clear()
        return self._newest


class _Watched:
    """A watched run, and the task that reads it."""

    def __init__(self, files: Files, reading: Reading[Any], group: asyncio.TaskGroup) -> None:
        self.told: set[Updates] = set()
        self.newest = b""
        self.files = files
        self._reading = reading
        self._was_running = False
        self.task = group.create_task(self._look_on(group))

    async def _look_on(self, group: asyncio.TaskGroup) -> None:
        async with ServerFigures(self.files.run, group) as server:
            while True:
                self._tell(await self._look(server))
                await asyncio.sleep(EVERY)

    def _tell(self, figures: dict[str, Any]) -> None:
        self.newest = msgspec.json.encode(figures)
        for updates in self.told:
            updates.put(self.newest)

    async def look_for_the_last_time(self) -> None:
        """The present figures, marked as the last ones."""
        self._tell({**await self._look(None), "last": True})
        for updates in self.told:
            updates.end()

    async def _look(self, server: ServerFigures | None) -> dict[str, Any]:
        """The present figures, or what is wrong; without a server those of the files."""
        try:
            async with self.files.lock:
                figures: dict[str, Any] = await self._reading(self.files.look)
            self._say_if_it_ended(figures["summary"])
            if server is None:
                return {**figures, "server": "", "live": None, "lines": None}
            live = await server.ask(running=figures["summary"]["running"])
            lines = as_rows(live) if live else None
            figures["alerts"] = newest_alerts(figures["alerts"], live)
            return {**figures, "server": server.state, "live": live, "lines": lines}
        except Exception as error:
            known = trouble_of(error)
            if known is None:
                log.exception("fault while looking at run %s", self.files.run.name)
            return {"error": FAULT if known is None else known.text}

    def _say_if_it_ended(self, about: Mapping[str, Any]) -> None:
        if self._was_running and not about["running"]:
            said = "has ended" if about["state"] == State.ENDED else "does not answer any more"
            log.info("run %s %s; its pages show the last figures", about["name"], said)
        self._was_running = about["running"]
