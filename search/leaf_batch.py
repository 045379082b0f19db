"""Leaves on their way to an evaluator, and evaluations on their way back."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt


class Leaf(NamedTuple):
    """One position to evaluate."""

    features: npt.NDArray[np.uint64]
    """[words] packed planes."""
    actions: npt.NDArray[np.uint16]
    """[n] legal actions; the priors come back in this order."""


class BadEvaluation(ValueError):
    """The answer's length does not match the request. It only ends the search that waits for it."""


@dataclass(frozen=True, eq=False)
class LeafBatch:
    features: npt.NDArray[np.uint64]
    """[rows, words]"""
    counts: npt.NDArray[np.uint16]
    """[rows] legal actions of each row."""
    actions: npt.NDArray[np.uint16]
    """[sum of counts]"""

    @property
    def rows(self) -> int:
        return len(self.counts)

    @classmethod
    def of(cls, leaf: Leaf) -> LeafBatch:
        """Return a batch of one row."""
        counts = np.array([len(leaf.actions)], np.uint16)
        return cls(leaf.features[np.newaxis], counts, leaf.actions)


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
    """Receives the answers to a LeafBatch, perhaps in parts, and perhaps more than once for a row."""

    def answered(self, first: int, evaluations: Evaluations) -> None:
        """Take the answers to rows `first ..`, with one prior for each legal action, and one row of `wdl` for
        each row."""
        ...

    def failed(self, first: int, rows: int, error: Exception) -> None:
        """Note that these rows will never be answered."""
        ...


class Part(NamedTuple):
    """Some rows of a request, sent in a batch together with others."""

    reply: Reply
    first: int
    """Index of the first row in the request."""
    rows: int


def check_answers(answers: Evaluations, batch: LeafBatch) -> None:
    """Raise BadEvaluation unless there is one prior for each legal action and one row of `wdl` for each
    position."""
    total = len(batch.actions)
    if answers.priors.shape != (total,) or answers.wdl.shape != (batch.rows, 3):
        raise BadEvaluation(
            f"the network answered {batch.rows} positions with {total} legal actions by priors of shape "
            f"{answers.priors.shape} and win, draw and loss of shape {answers.wdl.shape}"
        )


class LeafQueue:
    """Rows that were requested and not sent yet, in order; split and joined to batches of the wanted size."""

    def __init__(self) -> None:
        self._asked: deque[tuple[LeafBatch, Part]] = deque()

    def __bool__(self) -> bool:
        return bool(self._asked)

    def put(self, batch: LeafBatch, reply: Reply) -> None:
        if batch.rows:
            self._asked.append((batch, Part(reply, 0, batch.rows)))

    def take(self, most: int) -> tuple[LeafBatch, list[Part]]:
        """Return the oldest rows, at most `most`, as one batch, and the requester of each of its rows."""
        batches: list[LeafBatch] = []
        parts: list[Part] = []
        while self._asked and most > 0:
            batch, part = self._asked.popleft()
            if batch.rows > most:
                batch, rest = cut(batch, most)
                self._asked.appendleft((rest, Part(part.reply, part.first + most, rest.rows)))
                part = part._replace(rows=most)
            batches.append(batch)
            parts.append(part)
            most -= batch.rows
        return joined(batches), parts


def cut(batch: LeafBatch, rows: int) -> tuple[LeafBatch, LeafBatch]:
    """Return the first `rows` rows, and the rest."""
    actions = int(batch.counts[:rows].sum(dtype=np.int64))
    return (
        LeafBatch(batch.features[:rows], batch.counts[:rows], batch.actions[:actions]),
        LeafBatch(batch.features[rows:], batch.counts[rows:], batch.actions[actions:]),
    )


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
    """Pass the answers to the rows `first ..` of a batch to their requesters.

    `counts [rows of the batch]`: legal actions of each row.
    """
    end = first + len(evaluations.wdl)
    begin = 0  # of the part, in rows of the batch
    used = 0  # priors of the previous rows
    for part in parts:
        low, high = max(first, begin), min(end, begin + part.rows)
        if low < high:
            some = evaluations
            if high - low < len(evaluations.wdl):
                priors = int(counts[low:high].sum(dtype=np.int64))
                wdl = evaluations.wdl[low - first : high - first]
                some = Evaluations(evaluations.priors[used : used + priors], wdl, evaluations.version)
                used += priors
            part.reply.answered(part.first + low - begin, some)
        begin += part.rows


def fail(parts: Sequence[Part], rows: Sequence[int], error: Exception) -> None:
    """Tell the requesters of these `rows` of a batch (ascending) that they will never be answered."""
    begin = 0
    for part in parts:
        for row in rows:
            if begin <= row < begin + part.rows:
                part.reply.failed(part.first + row - begin, 1, error)
        begin += part.rows
