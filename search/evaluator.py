"""What a search awaits: `evaluate(leaf)`. Here the evaluators that live in the process of the search.

The one over ZeroMQ is `client.remote_evaluator`. All of them gather what the coroutines asked for in
one turn of the event loop: batching is over games, never over leaves of one game.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

import numpy as np

from search.leaf_batch import (
    BadEvaluation,
    Evaluation,
    Evaluations,
    Leaf,
    LeafBatch,
    check_answers,
    gather,
    scatter,
)

__all__ = [
    "BadEvaluation",
    "Evaluation",
    "Evaluations",
    "Evaluator",
    "Leaf",
    "LeafBatch",
    "LocalEvaluator",
    "UniformEvaluator",
]


class Evaluator(Protocol):
    @property
    def version(self) -> int:
        """Weights version of the newest answer."""
        ...

    def evaluate(self, leaf: Leaf) -> Awaitable[Evaluation]:
        """Priors over `leaf.actions` and the value for the side to move."""
        ...


class LocalEvaluator:
    """Runs `infer` on batches in one worker thread; while it runs, the next batch collects.

    A free device never waits: the first leaf of a turn starts a batch at the end of that turn.
    """

    def __init__(self, infer: Callable[[LeafBatch], Evaluations], max_rows: int) -> None:
        self.version = 0
        self.rows = 0
        self.batches = 0
        self._infer = infer
        self._max_rows = max_rows
        self._asked: list[tuple[Leaf, asyncio.Future[Evaluation]]] = []
        self._wdl: dict[Awaitable[Evaluation], list[float]] = {}
        self._busy = False
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="inference")

    def evaluate(self, leaf: Leaf) -> Awaitable[Evaluation]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Evaluation] = loop.create_future()
        self._asked.append((leaf, future))
        if not self._busy:
            self._busy = True
            loop.call_soon(self._next_batch)
        return future

    async def evaluate_wdl(self, leaf: Leaf) -> tuple[Evaluation, list[float]]:
        """As `evaluate`, with the probabilities of win, draw and loss: for roots; leaves pay nothing."""
        future = self.evaluate(leaf)
        self._wdl[future] = []
        try:
            return await future, self._wdl[future]
        finally:
            del self._wdl[future]

    def close(self) -> None:
        """Stop the thread; what still waits is never answered."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _next_batch(self) -> None:
        taken, self._asked = self._asked[: self._max_rows], self._asked[self._max_rows :]
        if not taken:
            self._busy = False
            return
        batch = gather([leaf for leaf, _ in taken])
        waiting = [future for _, future in taken]
        running = asyncio.get_running_loop().run_in_executor(self._thread, self._infer, batch)
        running.add_done_callback(lambda done: self._answer(batch, waiting, done))

    def _answer(
        self, batch: LeafBatch, waiting: list[asyncio.Future[Evaluation]], done: asyncio.Future[Evaluations]
    ) -> None:
        error = None if done.cancelled() else _error_of(done, batch)
        if done.cancelled() or error is not None:
            for future in waiting:
                if not future.done():
                    future.set_exception(error or asyncio.CancelledError())
        else:
            answers = done.result()
            self.version = answers.version
            self.rows += batch.rows
            self.batches += 1
            if self._wdl:
                self._keep_wdl(answers, waiting)
            scatter(answers.priors, answers.wdl, batch.counts, waiting)
        self._next_batch()

    def _keep_wdl(self, answers: Evaluations, waiting: Sequence[asyncio.Future[Evaluation]]) -> None:
        for row, future in enumerate(waiting):
            if future in self._wdl:
                self._wdl[future] = answers.wdl[row].tolist()


def _error_of(done: asyncio.Future[Evaluations], batch: LeafBatch) -> BaseException | None:
    """What went wrong with a batch, be it that the answers do not fit the questions."""
    error = done.exception()
    if error is None:
        try:
            check_answers(done.result(), batch)
        except BadEvaluation as misfit:
            return misfit
    return error


class UniformEvaluator:
    """Every legal action equally likely, every value 0: a network that knows nothing and costs nothing.

    Gathers and scatters like the others, so that its speed is the speed of everything but the network.
    """

    version = 0

    def __init__(self, max_rows: int = 1024) -> None:
        self.rows = 0
        self._max_rows = max_rows
        self._asked: list[tuple[Leaf, asyncio.Future[Evaluation]]] = []

    def evaluate(self, leaf: Leaf) -> Awaitable[Evaluation]:
        loop = asyncio.get_running_loop()
        if not self._asked:
            loop.call_soon(self._answer)
        future: asyncio.Future[Evaluation] = loop.create_future()
        self._asked.append((leaf, future))
        return future

    def _answer(self) -> None:
        asked, self._asked = self._asked, []
        for begin in range(0, len(asked), self._max_rows):
            part = asked[begin : begin + self._max_rows]
            batch = gather([leaf for leaf, _ in part])
            priors = np.repeat((1.0 / batch.counts).astype(np.float32), batch.counts)
            wdl = np.zeros((batch.rows, 3), dtype=np.float32)
            wdl[:, 1] = 1.0
            self.rows += batch.rows
            scatter(priors, wdl, batch.counts, [future for _, future in part])
