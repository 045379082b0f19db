"""The figures that azserver gives to any watcher: evaluations a second, batches, queue, sessions."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from protocol.messages import PROTOCOL_VERSION, GetStatus, Hello, Message, Status
from runtime.connection import Connection, ConnectionSettings
from runtime.exits import Fatal
from runtime.keys import own_server_keys
from runtime.runs import RunFolder, shown_settings
from runtime.sockets import Context, new_context

OLD = 10.0
"""Seconds after which figures are out of date."""
ANYWHERE = frozenset({"0.0.0.0", "::", "*"})


def address_of(settings: Mapping[str, Any]) -> str | None:
    """HOST:PORT of the server with these settings (config.toml); None if they do not contain it."""
    listen, port = settings.get("listen"), settings.get("port")
    if not isinstance(listen, str) or not isinstance(port, int) or isinstance(port, bool):
        return None
    return f"{'127.0.0.1' if listen in ANYWHERE else listen}:{port}"


class ServerFigures:
    """A connection to the run's azserver while that runs, with tasks in `group`. A context manager."""

    def __init__(self, run: RunFolder, group: asyncio.TaskGroup) -> None:
        self._group = group
        self.state = "The run is not running."
        """Why there are no figures, for people; "" while there are."""
        self._run = run
        self._figures: dict[str, Any] = {}
        self._came = -OLD
        self._address: str | None = None
        self._context: Context | None = None
        self._connection: Connection | None = None
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> ServerFigures:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._close()

    async def ask(self, *, running: bool) -> dict[str, Any] | None:
        """Return the latest figures, if there are any, and request new ones."""
        if not running:
            await self._close()
            self.state = "The run is not running."
            return None
        address = address_of(shown_settings(self._run.config))
        if address is None:
            self.state = f"{self._run.config} does not say where azserver listens."
            return None
        if self._task is None:
            self._connect(address, shown_settings(self._run.config))
        if self._connection is not None:
            self._connection.send(GetStatus())
        if time.monotonic() - self._came > OLD:
            self.state = self.state or f"azserver does not answer at {self._address}."
            return None
        if self._figures.get("run") != self._run.name:
            self.state = f"Another run answers at {self._address}: {self._figures.get('run')}."
            return None
        self.state = ""
        return self._figures

    def _connect(self, address: str, settings: Mapping[str, Any]) -> None:
        self._address, self.state = address, f"Asking azserver at {address} ..."
        try:
            keys = ConnectionSettings(keys=own_server_keys(settings))
        except Fatal as error:
            self.state = str(error)
            return
        self._context = new_context()
        hello = Hello(PROTOCOL_VERSION, "watcher", f"azplay web {os.getpid()}")
        self._connection = Connection(
            self._context, f"tcp://{address}", hello, on_message=self._take, settings=keys
        )
        self._task = self._group.create_task(self._be_connected(self._connection))

    async def _be_connected(self, connection: Connection) -> None:
        try:
            await connection.run()
        except Fatal as error:
            self.state = str(error)
            self._connection = None

    def _take(self, message: Message, frames: list[memoryview]) -> None:
        if isinstance(message, Status) and not frames:
            self._figures, self._came = message.figures, time.monotonic()
            self.state = ""

    async def _close(self) -> None:
        """Close the connection. The next `ask` may connect again."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._context is not None:
            self._context.term()
        self._task = self._context = self._connection = None
        self._figures, self._came = {}, -OLD
