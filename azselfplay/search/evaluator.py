"""The interface through which a search requests evaluations, and the evaluators in the search's own process.

A search passes a `LeafBatch` and a `Reply` to `Evaluator.submit`; the reply receives the answers later,
perhaps in parts. The evaluators in other processes are `client.sources.RingSource` (this machine) and
`client.remote_evaluator` (over ZeroMQ). All keep requests in `WaitingLeaves`, which joins them into batches;
those of this process wait for the end of an event loop iteration. `deliver` splits the answers to a batch by
request again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from protocol.frames import LeafBatch


class BadEvaluation(ValueError):
    """The answer's length does not match the request, or the evaluator is closed. The error ends only the
    search that waits for this answer."""


class Evaluator(Protocol):
    @property
    def version(self) -> int:
        """Version of the weights that gave the newest answer."""
        ...

    def submit(self, batch: LeafBatch, reply: Reply) -> None:
        """Request the evaluation of some leaves. `reply` is called later, never before `submit` returns. The
        caller must not change the batch's arrays afterwards."""
        ...


@dataclass(frozen=True, eq=False)
class Evaluations:
    """Answers to a LeafBatch, or to some consecutive rows of it."""

    priors: npt.NDArray[Any]
    """[sum of counts] float16 or float32."""
    wdl: npt.NDArray[np.float32]
    """[rows, 3] probabilities of win, draw and loss for the side to move."""
    version: int
    """Version of the weights that answered."""

    @property
    def values(self) -> npt.NDArray[np.float32]:
        """[rows] values for the side to move, in [-1, 1]."""
        values: npt.NDArray[np.float32] = self.wdl[:, 0] - self.wdl[:, 2]
        return values


class Reply(Protocol):
    """Receives the answers to a LeafBatch, perhaps in several parts. A row may be answered more than once."""

    def answered(self, first: int, evaluations: Evaluations) -> None:
        """Take the answers to the rows from `first` on: one prior for each legal action, and one row of `wdl`
        for each row."""
        ...

    def failed(self, first: int, rows: int, error: Exception) -> None:
        """Note that these rows will never be answered."""
        ...


# ---- Evaluators of this process ---------------------------------------------------------------------


async def evaluate(evaluator: Evaluator, batch: LeafBatch) -> Evaluations:
    """Return the answers to a whole batch. Raises the evaluator's error for any of its rows."""
    reply = _Whole(batch)
    evaluator.submit(batch, reply)
    return await reply.done


class _Whole:
    """Joins the parts of an answer. The waiting caller may have been cancelled meanwhile."""

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
        # After a reconnection a row may be answered twice; the second answer removes nothing from the set.
        self._missing.difference_update(range(first, end))
        if not self._missing and not self.done.done():
            self.done.set_result(Evaluations(self._priors, self._wdl, evaluations.version))

    def failed(self, first: int, rows: int, error: Exception) -> None:  # noqa: ARG002
        if not self.done.done():
            self.done.set_exception(error)


class LocalEvaluator:
    """Runs `infer` on batches in one worker thread; while it runs, the next batch collects.

    An idle device never waits: the first leaf of an event loop iteration starts a batch at its end.
    """

    def __init__(self, infer: Callable[[LeafBatch], Evaluations], max_rows: int) -> None:
        self.version = 0
        self.rows = 0
        self.batches = 0
        self._infer = infer
        self._max_rows = max_rows
        self._waiting = WaitingLeaves()
        self._busy = False
        self._is_closed = False
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="inference")

    def submit(self, batch: LeafBatch, reply: Reply) -> None:
        self._waiting.put(batch, reply)
        if not self._busy:
            self._busy = True
            asyncio.get_running_loop().call_soon(self._next_batch)

    def answer(self, batch: LeafBatch) -> Evaluations:
        """Evaluate `batch` between the submitted batches, and block until it is done. May be called from any
        thread."""
        return self._thread.submit(self._infer, batch).result()

    def close(self) -> None:
        """Stop the thread. Requests that still wait, and later ones, fail with BadEvaluation."""
        self._is_closed = True
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _next_batch(self) -> None:
        if not self._waiting:
            self._busy = False
            return
        batch, parts = self._waiting.take(self._max_rows)
        if self._is_closed:
            self._fail_closed(batch, parts)
            return
        running = asyncio.get_running_loop().run_in_executor(self._thread, self._infer, batch)
        running.add_done_callback(lambda done: self._answer(batch, parts, done))

    def _fail_closed(self, batch: LeafBatch, parts: Sequence[Part]) -> None:
        fail(parts, range(batch.rows), BadEvaluation("this network is closed: load it again"))
        self._next_batch()

    def _answer(self, batch: LeafBatch, parts: Sequence[Part], done: asyncio.Future[Evaluations]) -> None:
        # A cancelled future means that the evaluator was closed meanwhile.
        if done.cancelled():
            self._fail_closed(batch, parts)
            return
        try:
            answers = done.result()
            check_answers(answers, batch)
        except Exception as error:
            fail(parts, range(batch.rows), error)  # ends the searches of this batch; others go on
        else:
            self.version = answers.version
            self.rows += batch.rows
            self.batches += 1
            deliver(parts, batch.counts, 0, answers)
        finally:
            # Continue even after an error, also one of a search: others wait for the next batch.
            self._next_batch()


def check_answers(answers: Evaluations, batch: LeafBatch) -> None:
    """Raise BadEvaluation unless there is one prior for each legal action and one row of `wdl` for each
    position."""
    total = len(batch.actions)
    if answers.priors.shape != (total,) or answers.wdl.shape != (batch.rows, 3):
        raise BadEvaluation(
            f"the network answered {batch.rows} positions with {total} legal actions by priors of shape "
            f"{answers.priors.shape} and win, draw and loss of shape {answers.wdl.shape}"
        )


class UniformEvaluator:
    """Gives every legal action the same prior and every position the value 0, like a network that knows
    nothing and costs nothing. So a run with it measures the speed of everything but the network."""

    version = 0

    def __init__(self) -> None:
        self.rows = 0

    def submit(self, batch: LeafBatch, reply: Reply) -> None:
        asyncio.get_running_loop().call_soon(self._answer, batch, reply)

    def _answer(self, batch: LeafBatch, reply: Reply) -> None:
        priors = np.repeat((1.0 / batch.counts).astype(np.float32), batch.counts)
        wdl = np.zeros((batch.rows, 3), dtype=np.float32)
        # All probability on a draw gives the value 0.
        wdl[:, 1] = 1.0
        self.rows += batch.rows
        reply.answered(0, Evaluations(priors, wdl, 0))


# ---- Joining requests, splitting answers ------------------------------------------------------------


class Part(NamedTuple):
    """Some rows of one request, within a batch that may also hold rows of other requests."""

    reply: Reply
    first: int
    """Index of the first row in the request."""
    rows: int


class WaitingLeaves:
    """A queue of rows that were requested but not sent yet. `take` splits and joins requests to batches of
    the wanted size."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[LeafBatch, Part]] = deque()

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def put(self, batch: LeafBatch, reply: Reply) -> None:
        if batch.rows:
            self._waiting.append((batch, Part(reply, 0, batch.rows)))

    def take(self, most: int) -> tuple[LeafBatch, list[Part]]:
        """Return the oldest rows, at most `most`, as one batch, and the requester of each of its rows."""
        batches: list[LeafBatch] = []
        parts: list[Part] = []
        while self._waiting and most > 0:
            batch, part = self._waiting.popleft()
            if batch.rows > most:
                batch, rest = batch.split(most)
                self._waiting.appendleft((rest, Part(part.reply, part.first + most, rest.rows)))
                part = part._replace(rows=most)
            batches.append(batch)
            parts.append(part)
            most -= batch.rows
        return joined(batches), parts


def joined(batches: Sequence[LeafBatch]) -> LeafBatch:
    """Return all rows as one batch, in order."""
    if len(batches) == 1:
        return batches[0]
    return LeafBatch(
        np.concatenate([batch.features for batch in batches]),
        np.concatenate([batch.counts for batch in batches]),
        np.concatenate([batch.actions for batch in batches]),
    )


def deliver(
    parts: Sequence[Part], counts: npt.NDArray[np.uint16], first: int, evaluations: Evaluations
) -> None:
    """Pass the answers to the rows of a batch from `first` on to their requesters.

    `counts [rows of the batch]`: legal actions of each row.
    """
    end = first + len(evaluations.wdl)
    begin = 0  # of the part, in rows of the batch
    used = 0  # priors of the previous rows
    for part in parts:
        low, high = max(first, begin), min(end, begin + part.rows)
        if low < high:
            some = evaluations
            # Usually the whole answer belongs to one part, and then no slices are needed.
            if high - low < len(evaluations.wdl):
                priors = int(counts[low:high].sum(dtype=np.int64))
                wdl = evaluations.wdl[low - first : high - first]
                some = Evaluations(evaluations.priors[used : used + priors], wdl, evaluations.version)
                used += priors
            part.reply.answered(part.first + low - begin, some)
        begin += part.rows


def fail(parts: Sequence[Part], rows: Sequence[int], error: Exception) -> None:
    """Tell the requesters of these `rows` of a batch (ascending) that the rows will never be answered."""
    begin = 0
    for part in parts:
        for row in rows:
            if begin <= row < begin + part.rows:
                part.reply.failed(part.first + row - begin, 1, error)
        begin += part.rows
