"""The interface through which a search requests evaluations, `submit(batch, reply)`, and the evaluators that
run in the search's own process.

The one over ZeroMQ is `client.remote_evaluator`. All of them join what was submitted in one turn of the event
loop: batches combine many games.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

import numpy as np

from search.leaf_batch import (
    BadEvaluation,
    Evaluations,
    Leaf,
    LeafBatch,
    LeafQueue,
    Part,
    Reply,
    check_answers,
    deliver,
    fail,
)

__all__ = [
    "BadEvaluation",
    "Evaluations",
    "Evaluator",
    "Leaf",
    "LeafBatch",
    "LocalEvaluator",
    "UniformEvaluator",
    "evaluate",
]


class Evaluator(Protocol):
    @property
    def version(self) -> int:
        """Weights version of the newest answer."""
        ...

    def submit(self, batch: LeafBatch, reply: Reply) -> None:
        """Request the evaluation of some leaves. `reply` is called later, never before this returns. The
        arrays must not change."""
        ...


async def evaluate(evaluator: Evaluator, batch: LeafBatch) -> Evaluations:
    """Return the answers to a whole batch. Raises the evaluator's error for any of its rows."""
    reply = _Whole(batch)
    evaluator.submit(batch, reply)
    return await reply.done


class _Whole:
    """Joins the parts of an answer. The caller that waits for it may be gone (cancelled)."""

    def __init__(self, batch: LeafBatch) -> None:
        self.done: asyncio.Future[Evaluations] = asyncio.get_running_loop().create_future()
        self._begins = np.concatenate([[0], np.cumsum(batch.counts, dtype=np.int64)])
        self._priors = np.zeros(len(batch.actions), np.float32)
        self._wdl = np.zeros((batch.rows, 3), np.float32)
        self._missing = set(range(batch.rows))

    def answered(self, first: int, evaluations: Evaluations) -> None:
        end = first + len(evaluations.wdl)
        self._priors[self._begins[first] : self._begins[end]] = evaluations.priors
        self._wdl[first:end] = evaluations.wdl
        self._missing.difference_update(range(first, end))
        if not self._missing and not self.done.done():
            self.done.set_result(Evaluations(self._priors, self._wdl, evaluations.version))

    def failed(self, first: int, rows: int, error: Exception) -> None:  # noqa: ARG002
        if not self.done.done():
            self.done.set_exception(error)


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
        self._asked = LeafQueue()
        self._busy = False
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="inference")

    def submit(self, batch: LeafBatch, reply: Reply) -> None:
        self._asked.put(batch, reply)
        if not self._busy:
            self._busy = True
            asyncio.get_running_loop().call_soon(self._next_batch)

    def close(self) -> None:
        """Stop the thread; requests that still wait are never answered."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _next_batch(self) -> None:
        if not self._asked:
            self._busy = False
            return
        batch, parts = self._asked.take(self._max_rows)
        running = asyncio.get_running_loop().run_in_executor(self._thread, self._infer, batch)
        running.add_done_callback(lambda done: self._answer(batch, parts, done))

    def _answer(self, batch: LeafBatch, parts: Sequence[Part], done: asyncio.Future[Evaluations]) -> None:
        if done.cancelled():
            return
        error = _error_of(done, batch)
        if error is not None:
            fail(parts, range(batch.rows), error)
        else:
            answers = done.result()
            self.version = answers.version
            self.rows += batch.rows
            self.batches += 1
            deliver(parts, batch.counts, 0, answers)
        self._next_batch()


def _error_of(done: asyncio.Future[Evaluations], batch: LeafBatch) -> Exception | None:
    """Return the error of a batch, including answers whose shape does not fit; None if there is none."""
    error = done.exception()
    if isinstance(error, Exception):
        return error
    try:
        check_answers(done.result(), batch)
    except BadEvaluation as misfit:
        return misfit
    return None


class UniformEvaluator:
    """Gives every legal action the same prior and every position the value 0: a network that knows and costs
    nothing.

    It joins and splits batches like the others, so its speed is the speed of everything but the network.
    """

    version = 0

    def __init__(self, max_rows: int = 1024) -> None:
        self.rows = 0
        self._max_rows = max_rows
        self._asked = LeafQueue()
        self._comes = False

    def submit(self, batch: LeafBatch, reply: Reply) -> None:
        self._asked.put(batch, reply)
        if not self._comes:
            self._comes = True
            asyncio.get_running_loop().call_soon(self._answer)

    def _answer(self) -> None:
        self._comes = False
        asked, self._asked = self._asked, LeafQueue()
        while asked:
            batch, parts = asked.take(self._max_rows)
            priors = np.repeat((1.0 / batch.counts).astype(np.float32), batch.counts)
            wdl = np.zeros((batch.rows, 3), dtype=np.float32)
            wdl[:, 1] = 1.0
            self.rows += batch.rows
            deliver(parts, batch.counts, 0, Evaluations(priors, wdl, 0))
