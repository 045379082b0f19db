"""The loaded networks: each is loaded once, however many games are played against it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from engine.nets import LoadedNet, load_net

IDLE = 2
"""Networks without users that stay loaded."""


@dataclass
class _Shared:
    net: LoadedNet
    users: int = 0


class Nets:
    """Loads networks in a thread, one at a time, on the CPU."""

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._shared: dict[Path, _Shared] = {}
        self._loading = asyncio.Lock()

    async def take(self, file: Path) -> LoadedNet:
        """The network in `file`, until `give_back`. Raises Fatal as `load_net`."""
        async with self._loading:
            found = self._shared.pop(file, None)
            if found is None:
                net = await asyncio.to_thread(load_net, file, threads=self._threads)
                found = _Shared(net)
            self._shared[file] = found  # moved to the end: used last
            found.users += 1
            self._close_idle()
            return found.net

    def give_back(self, file: Path) -> None:
        self._shared[file].users -= 1
        self._close_idle()

    @asynccontextmanager
    async def using(self, file: Path) -> AsyncIterator[LoadedNet]:
        """The network in `file`, for the duration of a block."""
        net = await self.take(file)
        try:
            yield net
        finally:
            self.give_back(file)

    def _close_idle(self) -> None:
        idle = [file for file, shared in self._shared.items() if not shared.users]
        for file in idle[: max(0, len(idle) - IDLE)]:
            self._shared.pop(file).net.close()

    def close(self) -> None:
        for shared in self._shared.values():
            shared.net.close()
        self._shared.clear()
