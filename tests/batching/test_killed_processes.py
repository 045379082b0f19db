"""Real evaluators, killed under load: every row gets its own answer.

Run as a program, this file is an evaluator at the path that it is given.
"""

import asyncio
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from ring_parts import LAYOUT, EchoNetwork, Evaluator, random_leaves
from test_ring_client import Checked

from azselfplay.host.folders import own_folder
from client.sources import RingSource
from protocol.frames import LeafBatch

PATIENCE = 300.0
"""Seconds after which a test fails; when all is well, nothing waits this long."""

pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def path() -> Iterator[Path]:
    with own_folder() as folder:
        yield folder / "ring"


class SlowEcho(EchoNetwork):
    """A batch takes a millisecond, so that a kill finds batches on the device."""

    def collect(self, ticket: LeafBatch) -> tuple[np.ndarray, np.ndarray]:
        time.sleep(0.001)
        return self.answers(ticket)


def evaluate(path: Path) -> None:
    evaluator = Evaluator(path, SlowEcho(target_rows=64))
    while True:
        evaluator.network.submitted.clear()
        evaluator.step()


@contextmanager
def evaluator_at(path: Path) -> Iterator[None]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen([sys.executable, __file__, str(path)], env=environment)
    try:
        yield
    finally:
        process.kill()
        process.wait()


class Load:
    """A worker that keeps 40 requests under way."""

    def __init__(self, path: Path) -> None:
        self.worker = RingSource([path], LAYOUT, "a worker", lambda: None)
        self.worker.ring.start()
        self.rng = np.random.default_rng(1)
        self.requests: list[Checked] = []
        self.rows = 0

    async def answered(self, rows: int) -> None:
        """Return when `rows` more rows are answered. An answer to another row fails in `Checked`."""
        wanted = self.rows + rows
        async with asyncio.timeout(PATIENCE):
            while self.rows < wanted:
                done = [one for one in self.requests if not one.open]
                self.requests = [one for one in self.requests if one.open]
                self.rows += sum(len(one.leaves[1]) - one.failed_rows for one in done)
                while len(self.requests) < 40:
                    leaves = random_leaves(self.rng, int(self.rng.integers(1, 60)))
                    self.requests.append(Checked(leaves))
                    self.worker.submit(leaves, self.requests[-1])
                await asyncio.sleep(0.001)

    async def finish(self) -> None:
        """Wait for all requests under way."""
        async with asyncio.timeout(PATIENCE):
            while any(one.open for one in self.requests):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        self.worker.ring.close()


def test_evaluators_killed_under_load_lose_no_row_and_answer_none_wrongly(path: Path) -> None:
    async def main() -> None:
        load = Load(path)
        for _ in range(3):
            with evaluator_at(path):
                await load.answered(random.Random(load.rows).randrange(500, 3000))
        with evaluator_at(path):
            await load.answered(5000)
            await load.finish()
        assert load.rows > 6000

    asyncio.run(main())


if __name__ == "__main__":
    evaluate(Path(sys.argv[1]))
