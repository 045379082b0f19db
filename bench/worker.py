"""The cost of an evaluation in the worker's process: a real worker, and a front whose evaluator invents
answers.

A batch takes as long as the network `small` takes on two cores, but nothing is computed meanwhile. So this
benchmark can run on one core. It shows a change in the worker better than `loop`, where the evaluator also
evicts the CPU caches and everything is slower. `AZ_BENCH_SECONDS` sets how long the worker is watched
(default 30).
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import uvloop
import zmq

from azselfplay.batching.loop import EvaluatorLoop, Exceptions
from azselfplay.games import get_game
from azselfplay.search.settings import resolve
from bench.loop import processor_seconds
from bench.turns import Spread
from protocol.settings import SelfPlaySettings
from server.evaluator import FrontControl
from server.front import Front, FrontSettings
from server.weights import WeightsStore

GAME = get_game("chess")
ROWS, BATCH_SECONDS = 64, 0.012
SETTLING_SECONDS = 15.0
TURN_SECONDS = 5.0


class MadeUpNetwork:
    """Priors depend on the action and values on a hash of the position, so searches are deep and games all
    differ."""

    target_rows = max_rows = ROWS
    in_flight = 1
    device_name = "made up"

    def __init__(self, batch_seconds: float = BATCH_SECONDS) -> None:
        self._batch_seconds = batch_seconds
        self._weights = np.exp(1.5 * np.random.default_rng(0).normal(size=GAME.actions)).astype(np.float32)
        self._done_at = 0.0

    def load(self, path: str, sha256: bytes) -> None:
        """Do nothing: there are no weights."""

    def room_for(self, rows: int) -> npt.NDArray[np.uint64]:
        return np.empty((rows, GAME.feature_words(GAME.history)), np.uint64)

    def submit(
        self,
        features: npt.NDArray[np.uint64],
        counts: npt.NDArray[np.uint16],
        actions: npt.NDArray[np.uint16],
    ) -> Any:
        weights = self._weights[actions]
        sums = np.add.reduceat(weights, np.cumsum(counts, dtype=np.int64) - counts)
        bits = features[:, :12].sum(axis=1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        win = (bits >> np.uint64(40)).astype(np.float32) / (1 << 25)
        wdl = np.stack([win, np.full_like(win, 0.5), 0.5 - win], axis=1)
        return (weights / np.repeat(sums, counts)).astype(np.float16), wdl

    def run(self, *positions: Any) -> Any:
        return self.collect(self.submit(*positions))

    def halve(self) -> None:
        """Do nothing: this network never runs out of memory."""

    def collect(self, ticket: Any) -> Any:
        self._done_at = max(self._done_at + self._batch_seconds, time.monotonic())
        time.sleep(max(0.0, self._done_at - time.monotonic()))
        return ticket


def front_in(folder: Path, evaluators: int = 1) -> Front:
    """Return a front for chess on sockets in `folder`."""
    store = WeightsStore(folder, GAME.name)
    # No real weights: the made-up network does not read them.
    store.add(b"made up", 0, 0, "tiny")
    settings = FrontSettings(
        run="bench",
        game=GAME,
        history=GAME.history,
        self_play=asdict(resolve(SelfPlaySettings(), GAME)),
        leaves=(f"ipc://{folder}/leaves",),
        bulk=(f"ipc://{folder}/bulk",),
        evaluators=f"ipc://{folder}/evaluators",
        rings=tuple(folder / f"ring-{index}" for index in range(evaluators)),
        devices=evaluators,
    )
    return Front(settings, store)


def answer(context: zmq.Context[Any], settings: FrontSettings) -> None:
    """Evaluate until the context is closed; runs in a thread."""
    # ZMQError is raised when the context is destroyed, which ends this thread.
    with suppress(zmq.ZMQError):
        socket = context.socket(zmq.DEALER)
        socket.connect(settings.evaluators)
        control, ring = FrontControl(socket, 0), settings.rings[0]
        EvaluatorLoop(ring, MadeUpNetwork(), GAME, GAME.history, control, Exceptions(OSError)).run()


async def watch(front: Front, turns: int, folder: Path) -> list[float]:
    """Return the microseconds of a worker's processor time per evaluation, turn by turn; the worker's spool
    is in `folder`."""
    command = ["-m", "client.worker", "--role", "worker", "--index", "0"]
    command += ["--bulk", front.settings.bulk[0], "--spool", str(folder)]
    worker = await asyncio.create_subprocess_exec(sys.executable, *command, stderr=asyncio.subprocess.DEVNULL)
    found: list[float] = []
    try:
        await asyncio.sleep(SETTLING_SECONDS)
        while len(found) < turns:
            evals, seconds = front.status()["evals"], processor_seconds(worker.pid)["worker_s"]
            await asyncio.sleep(TURN_SECONDS)
            if worker.returncode is not None:
                raise RuntimeError(f"the worker has ended with {worker.returncode}")
            spent = processor_seconds(worker.pid)["worker_s"] - seconds
            if evals:  # before that, the worker compiles
                found.append(1e6 * spent / (front.status()["evals"] - evals))
    finally:
        with suppress(ProcessLookupError):
            worker.kill()
        await worker.wait()
    return found


async def measure(folder: Path, turns: int) -> list[float]:
    """Call `watch` with everything that it needs."""
    front, context = front_in(folder), zmq.Context()
    thread = threading.Thread(target=answer, args=(context, front.settings))
    thread.start()
    try:
        async with asyncio.TaskGroup() as group:
            serving = group.create_task(front.run())
            await front.one_up.wait()
            found = await watch(front, turns, folder)
            serving.cancel()
    finally:
        context.destroy(0)
        thread.join()
    return found


def run() -> dict[str, float]:
    turns = max(3, round(float(os.environ.get("AZ_BENCH_SECONDS", "30")) / TURN_SECONDS))
    with tempfile.TemporaryDirectory() as folder:
        costs = Spread.of(uvloop.run(measure(Path(folder), turns)))
    print(f"{turns} turns of {TURN_SECONDS:.0f} s, batches of {ROWS}, median (least to most):")
    print(f"processor time of the worker an evaluation: {costs.text('.1f')} us")
    return {"worker_us": costs.median}
