"""Ours as users run it, in turns: azserver with its front, one evaluator and one worker, without a trainer.

Between turns all its processes are stopped (SIGSTOP), as in `bench.loop`. The server counts evaluations, but
does not know how many simulations they were.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from azselfplay.host.ports import find_base_port
from bench.loop import AGAIN_SECONDS, SETTLING_SECONDS, Watcher, tree
from bench.peers.answering import Counts, Options, answer, options, versions


class Served:
    """A server that runs only while it is measured."""

    def __init__(self, chosen: Options, folder: Path) -> None:
        self._port = find_base_port()
        command = [
            *(sys.executable, "-m", "server.main", "--game", chosen.game, "--net", chosen.net),
            *("--gpus", "cpu", "--workers", "1", "--port", str(self._port)),
            *("--runs", str(folder), "--run", "bench"),
            *("--self-play.search.simulations", str(chosen.simulations)),
        ]
        with (folder / "log").open("wb") as log:
            self._server = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)

    def settle(self) -> None:
        """Return once it has been playing for a while."""
        asyncio.run(self._watched(SETTLING_SECONDS, 0.0))
        self._send(signal.SIGSTOP)

    def measure(self, seconds: float) -> Counts:
        self._send(signal.SIGCONT)
        counts = asyncio.run(self._watched(AGAIN_SECONDS, seconds))
        self._send(signal.SIGSTOP)
        return counts

    def close(self) -> None:
        self._send(signal.SIGCONT)
        self._server.terminate()
        try:
            self._server.wait(30)
        except subprocess.TimeoutExpired:
            self._server.kill()

    async def _watched(self, settling: float, seconds: float) -> Counts:
        """The growth of the server's counts in `seconds`, once it has been playing for `settling` seconds."""
        watcher = Watcher(self._port, self._server.pid)
        async with asyncio.TaskGroup() as group:
            running = group.create_task(watcher.be_connected())
            await watcher.until_playing()
            await asyncio.sleep(settling)
            first = await watcher.look()
            await asyncio.sleep(seconds)
            last = await watcher.look()
            running.cancel()
        return Counts(last["at"] - first["at"], None, last["evals"] - first["evals"])

    def _send(self, number: signal.Signals) -> None:
        for process in tree(self._server.pid):
            with suppress(ProcessLookupError):  # it has just ended
                os.kill(process, number)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        side = Served(options(), Path(folder))
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
        try:
            side.settle()
            answer(
                {"versions": versions("pyzmq", "torch"), "settings": "one worker, its defaults"}, side.measure
            )
        finally:
            side.close()


if __name__ == "__main__":
    main()
