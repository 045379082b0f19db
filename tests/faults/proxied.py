"""Real azserver, azclient and trainer on one machine, with a proxy between azserver and the others.

The client itself provides a ledger: its spool, which is read while it is stopped, and the server's answers in
the store. A finished game that is not stored must be in the spool, and a game that left the spool must be
stored.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from free_ports import free_base_port
from target import HOST, Target
from tcp_proxy import Proxy

from azselfplay.host.runs import is_locked
from client.spool import REJECTED, SUFFIX


class ProxyThread:
    """Two proxies, for the leaves port and the bulk port, in a thread with an event loop of its own."""

    def __init__(self, base: int, target: int, seed: int) -> None:
        self.port = base
        self.proxies = [Proxy(target + at, base + at, seed=seed + at) for at in (0, 1)]
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._end = asyncio.Event()
        self._thread = threading.Thread(
            target=lambda: self._loop.run_until_complete(self._serve()), daemon=True
        )
        self._thread.start()
        self._ready.wait(10)

    async def _serve(self) -> None:
        async with self.proxies[0], self.proxies[1]:
            self._ready.set()
            await self._end.wait()

    def call(self, what: Callable[[Proxy], object]) -> None:
        """Call `what` with both proxies."""
        done = threading.Event()

        def both() -> None:
            for proxy in self.proxies:
                what(proxy)
            done.set()

        self._loop.call_soon_threadsafe(both)
        done.wait(10)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(10)
        self._loop.close()


class Proxied(Target):
    """A target whose azclient and trainer connect through the proxy; azserver has no worker of its own."""

    def __init__(self, folder: Path, seed: int = 1) -> None:
        super().__init__(folder, clients=1)
        self.proxy = ProxyThread(free_base_port(), self.port, seed)

    def stop(self) -> None:
        super().stop()
        self.proxy.close()

    def _client_flags(self) -> list[str]:
        return self._through_the_proxy(super()._client_flags())

    def _trainer_flags(self) -> list[str]:
        return self._through_the_proxy(super()._trainer_flags())

    def _through_the_proxy(self, flags: list[str]) -> list[str]:
        return [flag.replace(f"{HOST}:{self.port}", f"{HOST}:{self.proxy.port}") for flag in flags]

    # ---- what is seen -----------------------------------------------------------------------

    def clients_games(self) -> int:
        """Return the number of stored games that azclient played."""
        database = f"file:{self.folder}/runs/{self.game}-tiny/games.db?mode=ro"
        try:
            with closing(sqlite3.connect(database, uri=True)) as connection:
                return int(
                    connection.execute("SELECT count(*) FROM games WHERE source = 'clients'").fetchone()[0]
                )
        except sqlite3.OperationalError:
            return 0

    def spooled(self) -> set[str]:
        """Return the uids of games waiting in azclient's spool."""
        return {path.stem for path in (self.folder / "spool").glob(f"*/worker-*/*{SUFFIX}")}

    def rejected(self) -> list[str]:
        """Return the reasons of games that azclient has set aside."""
        found = (self.folder / "spool").glob(f"*/worker-*/{REJECTED}/*.reason")
        return [path.read_text() for path in found]

    def games_in(self, seconds: float) -> float:
        """Return how many of azclient's games are stored per second."""
        before, begun = self.clients_games(), time.monotonic()
        time.sleep(seconds)
        return (self.clients_games() - before) / (time.monotonic() - begun)

    def more_games(self, games: int) -> None:
        """Wait for `games` more of them."""
        wanted = self.clients_games() + games
        self.wait(lambda: self.clients_games() >= wanted, f"{games} more games")

    def end_client(self) -> set[str]:
        """Kill azclient and its worker. Returns the uids left in its spool."""
        process = self._processes["client.main"]
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        locks = list((self.folder / "spool").glob("*/worker-*/owner.lock"))
        self.wait(lambda: not any(map(is_locked, locks)), "the worker's end")
        return self.spooled()

    def start_client(self) -> None:
        self._start("client.main", self._client_flags())
