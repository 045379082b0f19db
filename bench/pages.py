"""What ten open pages cost a run: processor time of an evaluation with and without them, in turns.

The run is as `azrun --web` starts it (Connect Four, all defaults), with ten streams of live figures, as ten
open pages have them. It counts the processes that play (azserver's front, evaluator and worker) and the
process of the pages; the trainer, whose steps come in bursts, and the browsers do not count. Where all cores
are busy, self-play slows down by as much as an evaluation becomes dearer. `AZ_BENCH_SECONDS` sets how long
the run is watched (default 60).
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp

from azselfplay.host.hardware import seconds_of
from azselfplay.host.ports import find_base_port
from bench.loop import AGAIN_SECONDS, SETTLING_SECONDS, TURN_SECONDS, Watcher, tree
from bench.turns import Spread, ratio

PAGES = 10
COUNTED = ("server.main", "server.evaluator", "client.worker", "azselfplay.lab.web.command")
SHOWN = "azselfplay.lab.web.command"


class Turn(NamedTuple):
    """Figures of a few seconds."""

    evals: float
    """Evaluations per second."""
    cost: float
    """Processor time of an evaluation, microseconds."""
    pages: float
    """Cores that the process of the pages used."""


def seconds_by_module(root: int) -> dict[str, float]:
    """Processor time so far of process `root` and all its descendants, by the module that they run."""
    found = dict.fromkeys(COUNTED, 0.0)
    for process in tree(root):
        with suppress(OSError):  # it has just ended
            command = Path(f"/proc/{process}/cmdline").read_text().split("\0")
            for module in found.keys() & set(command):
                found[module] += seconds_of(process)
    return found


@asynccontextmanager
async def open_pages(url: str, count: int) -> AsyncIterator[None]:
    """Open `count` streams of live figures, and read them as they come."""

    async def read(session: aiohttp.ClientSession) -> None:
        async with session.get(url) as answer:
            answer.raise_for_status()
            async for _ in answer.content:
                pass

    endless = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(timeout=endless) as session, asyncio.TaskGroup() as group:
        readers = [group.create_task(read(session)) for _ in range(count)]
        yield
        for reader in readers:
            reader.cancel()


class Measuring:
    """Turns with and without pages, for a run whose first process is `root`."""

    def __init__(self, watcher: Watcher, root: int, url: str) -> None:
        self._watcher = watcher
        self._root = root
        self._url = url

    async def turn(self, pages: int) -> Turn:
        async with AsyncExitStack() as stack:
            if pages:
                await stack.enter_async_context(open_pages(self._url, pages))
            await asyncio.sleep(AGAIN_SECONDS)
            begun, before, first = time.monotonic(), seconds_by_module(self._root), await self._watcher.look()
            await asyncio.sleep(TURN_SECONDS)
            after, last = seconds_by_module(self._root), await self._watcher.look()
            took = time.monotonic() - begun
        spent = {module: after[module] - before[module] for module in COUNTED}
        evals = last["evals"] - first["evals"]
        return Turn(evals / took, 1e6 * sum(spent.values()) / evals, spent[SHOWN] / took)

    async def turns(self, count: int) -> dict[int, list[Turn]]:
        """Measurements by the number of pages, every other turn in reverse order."""
        found: dict[int, list[Turn]] = {0: [], PAGES: []}
        for at in range(count):
            for pages in list(found)[:: -1 if at % 2 else 1]:
                found[pages].append(await self.turn(pages))
        return found


async def _watch(watcher: Watcher, root: int, url: str, count: int) -> dict[int, list[Turn]]:
    async with asyncio.TaskGroup() as group:
        running = group.create_task(watcher.be_connected())
        await watcher.until_training()
        await asyncio.sleep(SETTLING_SECONDS)
        found = await Measuring(watcher, root, url).turns(count)
        running.cancel()
    return found


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def measure(count: int) -> dict[int, list[Turn]]:
    """Start a run, watch it, end it."""
    port, web = find_base_port(), _free_port()
    with tempfile.TemporaryDirectory() as runs, Path(runs, "log").open("wb") as log:
        command = [
            *(
                sys.executable,
                "-m",
                "azselfplay.lab.azrun",
                "--game",
                "connect_four",
                "--recipe",
                "none",
                "--runs",
                runs,
                "--run",
                "bench",
            ),
            *("--port", str(port), "--web", str(web)),
        ]
        run = subprocess.Popen(command, stderr=log, stdout=log)
        try:
            url = f"http://127.0.0.1:{web}/api/run/bench/events"
            return asyncio.run(_watch(Watcher(port, run.pid), run.pid, url, count))
        finally:
            run.send_signal(signal.SIGTERM)
            try:
                run.wait(90)
            except subprocess.TimeoutExpired:
                run.kill()


def run() -> dict[str, Any]:
    seconds = float(os.environ.get("AZ_BENCH_SECONDS", "60"))
    found = measure(max(3, round(seconds / TURN_SECONDS / 2)))
    alone, watched = found[0], found[PAGES]
    dearer = ratio([turn.cost for turn in watched], [turn.cost for turn in alone])
    rate = ratio([turn.evals for turn in watched], [turn.evals for turn in alone])
    cores = Spread.of([turn.pages for turn in watched])
    print(f"{len(alone)} turns of {TURN_SECONDS:.0f} s each way, median (least to most):")
    print(f"processor time of an evaluation: {Spread.of([turn.cost for turn in alone]).text('.1f')} us")
    print(f"the same with {PAGES} pages open, over that: {dearer.text('.3f')}")
    print(f"evaluations a second, likewise: {rate.text('.3f')}")
    print(f"the process of the pages: {cores.text('.4f')} cores")
    return {
        "dearer": dearer.median,
        "dearer_least": dearer.least,
        "dearer_most": dearer.most,
        "evals_ratio": rate.median,
        "pages_cores": cores.median,
        "cores": len(os.sched_getaffinity(0)),
    }
