"""What the handlers of the application share."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any, TypeVar

from aiohttp import web

from azselfplay.host.exits import Fatal
from azselfplay.host.runs import RunFolder
from azselfplay.lab.web.games import Shelf
from azselfplay.lab.web.guarding import Trouble
from azselfplay.lab.web.rooms import Rooms
from azselfplay.lab.web.runs import summaries
from azselfplay.lab.web.watching import Watching

T = TypeVar("T")

MOST = 2**53
"""Largest number that a browser's script can represent."""
LIST_SECONDS = 1.0
"""Seconds for which the list of runs is reused."""
READERS = 2
"""Threads that read files: enough for many pages, too few to slow down a run."""


@dataclass
class Site:
    """One folder of runs, and everything open in it."""

    runs: Path
    watching: Watching
    shelf: Shelf
    rooms: Rooms
    readers: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(READERS, thread_name_prefix="web-reader")
    )

    _listed: list[dict[str, Any]] = field(default_factory=list)
    _listed_at: float = -math.inf
    _listing: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def listed(self) -> list[dict[str, Any]]:
        """All runs; read once for all requests within LIST_SECONDS."""
        async with self._listing:
            if time.monotonic() - self._listed_at > LIST_SECONDS:
                self._listed = await self.reading(lambda: summaries(self.runs))
                self._listed_at = time.monotonic()
            return self._listed

    async def reading(self, work: Callable[[], T]) -> T:
        """Run `work`, which reads files, in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self.readers, work)

    def run_named(self, name: str) -> RunFolder:
        """The run called `name`, always a folder inside `runs`. Raises Trouble if there is none."""
        try:
            run = RunFolder(self.runs, name)
        except Fatal as error:
            raise Trouble(str(error)) from error
        if not (run.about.is_file() or run.games.is_file()):
            raise Trouble(f"There is no run called {name} in {self.runs}. It may have been deleted or moved.")
        return run

    def run_of(self, request: web.Request) -> RunFolder:
        """The run that the address names."""
        return self.run_named(request.match_info["run"])


SITE: web.AppKey[Site] = web.AppKey("site", Site)


def number_in(request: web.Request, name: str, default: int, low: int, high: int) -> int:
    """A whole number in the query, `default` where it is missing. Raises Trouble(400)."""
    return whole(request.query.get(name, ""), name, default, low, high)


def whole(text: str, name: str, default: int, low: int, high: int) -> int:
    """`text` as a number between `low` and `high`. Raises Trouble(400)."""
    if not text:
        return default
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 18 and low <= int(text) <= high):
        raise Trouble(
            f"{name} is {text[:40]!r}, but must be a whole number from {low} to {high}.",
            HTTPStatus.BAD_REQUEST,
        )
    return int(text)
