"""What a leaf costs the worker's process on its way to the server and back, without sockets.

Leaves go into messages and answers back to the searches: `client.remote_evaluator` with a connection that
answers at once with prepared bytes. As in a `SearchPool`, searches that are answered in one turn of the loop
send their next leaves, of the size of chess, together. The second part measures the cost of sending the legal
actions of a leaf of 19x19 Go as a mask instead of a list: in worker, front and evaluator.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from client.remote_evaluator import LEAVES_PER_MESSAGE, RemoteEvaluator
from games.packed import LegalMasks
from protocol.frames import check_leaves
from protocol.messages import Evaluate, Evaluated
from search.evaluator import Evaluations, LeafBatch

WORDS, LEGAL = 119, 35
"""Packed words and legal actions of a chess position."""
LEAVES = 300_000
GO_ACTIONS, GO_LEGAL, GO_WORDS, GO_BYTES = 362, 250, 97, 46
TURNS = 2000


class _Echo:
    """A connection to a server that takes no time: the answer comes in the next turn of the loop."""

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


class _Searches:
    """Searches with one leaf each in flight, until LEAVES are answered: then `done`."""

    def __init__(self, evaluator: RemoteEvaluator, searches: int) -> None:
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._evaluator = evaluator
        self._free = searches
        self._submit()

    def _submit(self) -> None:
        rows, self._free = self._free, 0
        actions = np.tile(np.arange(LEGAL, dtype=np.uint16), rows)
        counts = np.full(rows, LEGAL, np.uint16)
        self._evaluator.submit(LeafBatch(np.zeros((rows, WORDS), np.uint64), counts, actions), self)

    def answered(self, first: int, evaluations: Evaluations) -> None:  # noqa: ARG002
        if self._evaluator.leaves >= LEAVES:
            if not self.done.done():
                self.done.set_result(None)
            return
        if not self._free:
            asyncio.get_running_loop().call_soon(self._submit)
        self._free += len(evaluations.wdl)

    def failed(self, first: int, rows: int, error: Exception) -> None:  # noqa: ARG002
        self.done.set_exception(error)


async def _measure(searches: int) -> float:
    echo = _Echo()
    evaluator = echo.evaluator = RemoteEvaluator(echo.send)
    evaluator.joined(SimpleNamespace(credits=4096))  # type: ignore[arg-type]
    began = time.process_time()
    await _Searches(evaluator, searches).done
    evaluator.close()
    return (time.process_time() - began) / evaluator.leaves * 1e6


def mask_costs() -> dict[str, float]:
    """Microseconds of CPU that a mask costs per leaf in messages of LEAVES_PER_MESSAGE, by process."""
    rows, rng, masks = LEAVES_PER_MESSAGE, np.random.default_rng(0), LegalMasks(GO_BYTES)
    counts = np.full(rows, GO_LEGAL, np.uint16)
    lists = [np.sort(rng.permutation(GO_ACTIONS)[:GO_LEGAL]) for _ in range(rows)]
    actions = np.concatenate(lists).astype(np.uint16)
    priors, features = np.zeros(len(actions), np.float16), np.zeros((rows, GO_WORDS), np.uint64)
    masked = masks.masks(counts, actions)
    as_list, as_mask = ([one.tobytes() for one in (features, counts, legal)] for legal in (actions, masked))

    def check(frames: list[bytes], mask_bytes: int) -> None:
        check_leaves(rows, GO_WORDS, GO_ACTIONS, frames, max_legal=GO_ACTIONS, mask_bytes=mask_bytes)

    return {
        "mask_us_worker": _cost(lambda: masks.masks(counts, actions))
        + _cost(lambda: masks.as_listed(counts, actions, priors)),
        "mask_us_front": _cost(lambda: check(as_mask, GO_BYTES)) - _cost(lambda: check(as_list, 0)),
        "mask_us_evaluator": _cost(lambda: masks.lists(counts, masked)),
    }


def _cost(function: Callable[[], object]) -> float:
    """Microseconds per leaf of a message."""
    function()
    began = time.process_time()
    for _ in range(TURNS):
        function()
    return (time.process_time() - began) / TURNS / LEAVES_PER_MESSAGE * 1e6


def run() -> dict[str, float]:
    """Microseconds of CPU per leaf, by number of searches; and the cost of a mask."""
    import uvloop

    figures = {name: round(cost, 2) for name, cost in mask_costs().items()}
    for searches in (64, 512):
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            figures[f"us_per_leaf_{searches}"] = round(runner.run(_measure(searches)), 2)
        print(f"{searches:5d} searches: {figures[f'us_per_leaf_{searches}']:.2f} us CPU a leaf")
    list_bytes, mask_bytes = (8 * GO_WORDS + 2 + legal for legal in (2 * GO_LEGAL, GO_BYTES))
    print(f"a leaf of 19x19 Go: {list_bytes} bytes with a list of {GO_LEGAL}, {mask_bytes} with a mask")
    return figures
