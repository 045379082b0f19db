"""Real evaluator processes that stop for a while, or hang without end."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from front_bench import GAME, PATIENCE, Bench, Worker, inside, running_front

from azselfplay.host.aio import Stop
from azselfplay.host.processes import Children
from net.create import create
from protocol.messages import Evaluated
from server.evaluator_pool import LIMITS
from server.evaluator_watch import WatchTimes
from server.front import Front

QUICK = replace(LIMITS, ping_after=0.1, ping_patience=1.0)


def evaluator(bench: Bench) -> list[str]:
    return [
        *(sys.executable, "-m", "server.evaluator", "--endpoint", bench.endpoints["evaluators"]),
        *("--index", "0", "--device", "cpu", "--game", GAME.name, "--history", "1", "--threads", "1"),
        *("--ring", str(bench.front.settings.rings[0])),
    ]


class Watched:
    """One evaluator process beside a front, kept running and watched in the way of azserver."""

    def __init__(self, bench: Bench) -> None:
        self.front, self.bench = bench.front, bench
        self.started: asyncio.Queue[int] = asyncio.Queue()
        """The ids of its processes, one after the other."""
        self.children = Children(backoff=0.01, sink=lambda _: None)
        self.children.add("evaluator-0", evaluator(bench), on_start=self._on_start, on_exit=self._on_exit)

    def _on_start(self) -> None:
        self.front.pool.process_started(0)
        self.started.put_nowait(self.children.pids()["evaluator-0"])

    def _on_exit(self, code: int) -> None:
        self.front.pool.process_ended(0, code)

    async def watch(self) -> None:
        while True:
            await asyncio.sleep(0.05)
            for index, _ in self.front.hanging_evaluators():
                os.kill(self.children.pids()[f"evaluator-{index}"], signal.SIGKILL)

    async def answers(self) -> None:
        """Check that leaves are evaluated."""
        worker = Worker(self.bench, 1)
        await worker.join("client")
        worker.ask(1, 3)
        rows = 0
        while rows < 3:
            rows += (await worker.receive(Evaluated))[0].rows


def beside(times: WatchTimes) -> Callable[..., Any]:
    """Return a decorator for `async def test(watched)`, which runs beside a front with quick heartbeats, real
    weights and a watched evaluator."""

    @asynccontextmanager
    async def place(folder: Path) -> AsyncIterator[Watched]:
        create(GAME.name, 1, "tiny", 0, folder / "net.safetensors")
        data = (folder / "net.safetensors").read_bytes()
        more = {"settings": lambda usual: replace(usual, watch=times, evaluator_limits=QUICK)}
        async with running_front(folder, **more, weights=data) as bench, asyncio.TaskGroup() as group:
            watched = Watched(bench)
            running = group.create_task(watched.children.run(Stop()))
            watching = group.create_task(watched.watch())
            yield watched
            watching.cancel()
            running.cancel()

    return inside(place)


async def cut(front: Front) -> None:
    """Wait until the front has cut the connection of an evaluator."""
    async with asyncio.timeout(PATIENCE):
        while len(front.pool.door):  # noqa: ASYNC110 (a turn of the loop is what is waited for)
            await asyncio.sleep(0.01)


@beside(WatchTimes())
async def test_one_that_was_stopped_until_its_connection_was_cut_works_again(watched: Watched) -> None:
    """After SIGSTOP the front's heartbeats cut the connection; after SIGCONT the same process answers
    leaves."""
    pid = await watched.started.get()
    async with asyncio.timeout(PATIENCE):
        await watched.front.one_up.wait()
    await watched.answers()
    os.kill(pid, signal.SIGSTOP)
    await cut(watched.front)
    os.kill(pid, signal.SIGCONT)
    await watched.answers()
    assert watched.started.empty(), "it was killed and started again"


@beside(WatchTimes(silence=3.0))
async def test_one_that_stays_stopped_is_killed_and_its_successor_works(watched: Watched) -> None:
    pid = await watched.started.get()
    async with asyncio.timeout(PATIENCE):
        await watched.front.one_up.wait()
    os.kill(pid, signal.SIGSTOP)
    async with asyncio.timeout(PATIENCE):
        assert await watched.started.get() != pid
    await watched.answers()
