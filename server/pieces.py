"""Requests cut into pieces, and what the leaf queue may ask for: the words that batching is written in."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from protocol.errors import Code
from protocol.frames import LeafFrames

Session = Hashable
EvaluatorId = Hashable


@dataclass(eq=False, slots=True)
class Request:
    """One EVALUATE as it waits. `offsets[i]` is where the actions of row `i` begin."""

    session: Session
    request: int
    frames: LeafFrames
    offsets: npt.NDArray[np.int64]
    arrived: float
    unanswered: int
    dropped: bool = False

    @property
    def rows(self) -> int:
        return len(self.frames.counts)


@dataclass(eq=False, slots=True)
class Piece:
    """Rows `first .. first + rows` of a request."""

    of: Request
    first: int
    rows: int
    deaths: int = 0
    """Evaluators that failed with it as a whole."""
    wrong_answers: int = 0
    """Answers to its rows that were no probabilities, in batches whose evaluator went on."""

    def split(self, rows: int) -> Piece:
        """Cut the first `rows` off and return them; what is left stays in `self`."""
        head = Piece(self.of, self.first, rows, self.deaths, self.wrong_answers)
        self.first += rows
        self.rows -= rows
        return head

    def runs(self, wrong: npt.NDArray[np.bool_]) -> Iterator[tuple[Piece, bool]]:
        """Cut into rows that are all wrong or all right, in order. `wrong`: [rows] of this piece."""
        if not wrong.any():
            yield self, False
            return
        bounds = [0, *(np.flatnonzero(wrong[1:] != wrong[:-1]) + 1).tolist(), self.rows]
        for first, end in itertools.pairwise(bounds):
            run = Piece(self.of, self.first + first, end - first, self.deaths, self.wrong_answers)
            yield run, bool(wrong[first])

    @property
    def action_range(self) -> tuple[int, int]:
        offsets = self.of.offsets
        return int(offsets[self.first]), int(offsets[self.first + self.rows])

    def __repr__(self) -> str:
        return f"Piece({self.of.session!r}, {self.of.request}, {self.first}+{self.rows})"


@dataclass(frozen=True)
class SendBatch:
    """Give these pieces to this device, joined in this order (`gather`)."""

    evaluator: EvaluatorId
    batch: int
    pieces: tuple[Piece, ...]
    waited: float
    """Mean seconds that its rows were queued."""

    @property
    def rows(self) -> int:
        return sum(piece.rows for piece in self.pieces)


@dataclass(frozen=True)
class Answer:
    """Send rows `at .. at + rows` of the finished batch as rows `first ..` of the request.

    Their priors are `actions_at .. actions_end` of the batch's.
    """

    session: Session
    request: int
    first: int
    rows: int
    at: int
    actions_at: int
    actions_end: int


@dataclass(frozen=True)
class Refuse:
    """Tell the session that `rows` rows of this request will not be answered."""

    session: Session
    request: int
    code: Code
    reason: str
    rows: int
    retry_after: float = 0.0


Instruction = SendBatch | Answer | Refuse


def gather(pieces: tuple[Piece, ...]) -> LeafFrames:
    """The frames of a batch, read-only, so that `runtime.sockets` sends them in place. One whole request
    is passed on without a copy."""
    frames = _joined(pieces)
    frames.features.flags.writeable = False
    return frames


def _joined(pieces: tuple[Piece, ...]) -> LeafFrames:
    if len(pieces) == 1 and pieces[0].rows == pieces[0].of.rows:
        return pieces[0].of.frames
    features, counts, actions = [], [], []
    for piece in pieces:
        frames, end = piece.of.frames, piece.first + piece.rows
        features.append(frames.features[piece.first : end])
        counts.append(frames.counts[piece.first : end])
        start, stop = piece.action_range
        actions.append(frames.actions[start:stop])
    return LeafFrames(np.concatenate(features), np.concatenate(counts), np.concatenate(actions))
