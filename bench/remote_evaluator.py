"""What a leaf costs the worker's process on its way to the server and back, sockets left out.

Future, await, gather into a message, scatter of the answer: `client.remote_evaluator` with a connection
that answers at once with bytes made beforehand. Measured with 512 coroutines of chess-sized leaves.
"""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace
from typing import Any

import numpy as np

from client.remote_evaluator import LEAVES_PER_MESSAGE, RemoteEvaluator
from protocol.messages import Evaluate, Evaluated
from search.leaf_batch import Leaf

WORDS, LEGAL = 119, 35
"""Packed words and legal actions of a chess position."""
LEAVES = 300_000


class _Echo:
    """A connection whose server takes no time: the next turn of the loop brings the answer."""

    def __init__(self) -> None:
        self._answers = {
            rows: [memoryview(bytes(2 * LEGAL * rows)), memoryview(np.zeros((rows, 3), np.float32).tobytes())]
            for rows in range(1, LEAVES_PER_MESSAGE + 1)
        }
        self.evaluator: Any = None

    def send(self, message: Evaluate, *_: object) -> bool:
        answer = Evaluated(message.request, 0, message.rows, 1)
        asyncio.get_running_loop().call_soon(self.evaluator.on_evaluated, answer, self._answers[message.rows])
        return True


async def _ask(evaluator: RemoteEvaluator, leaves: int) -> None:
    leaf = Leaf(np.zeros(WORDS, np.uint64), np.arange(LEGAL, dtype=np.uint16))
    for _ in range(leaves):
        await evaluator.evaluate(leaf)


async def _measure(coroutines: int) -> float:
    echo = _Echo()
    evaluator = echo.evaluator = RemoteEvaluator(echo.send)
    evaluator.joined(SimpleNamespace(credits=4096))  # type: ignore[arg-type]
    began = time.process_time()
    async with asyncio.TaskGroup() as group:
        for _ in range(coroutines):
            group.create_task(_ask(evaluator, LEAVES // coroutines))
    evaluator.close()
    return (time.process_time() - began) / LEAVES * 1e6


def run() -> dict[str, float]:
    """Microseconds of CPU a leaf, by number of coroutines."""
    import uvloop

    figures = {}
    for coroutines in (64, 512):
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            figures[f"us_per_leaf_{coroutines}"] = round(runner.run(_measure(coroutines)), 2)
        print(f"{coroutines:5d} coroutines: {figures[f'us_per_leaf_{coroutines}']:.2f} us CPU a leaf")
    return figures
