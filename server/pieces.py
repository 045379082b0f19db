"""Requests cut into pieces, and the instructions of the leaf queue: the types that batching is written in."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from protocol.errors import Code

Session = Hashable
EvaluatorId = Hashable

COUNT_BYTES = ACTION_BYTES = 2
"""Bytes of one number in the frames `counts` and `actions`."""


class Request:
    """One EVALUATE that waits for its answers."""

    __slots__ = (
        "_offsets",
        "actions",
        "arrived",
        "dropped",
        "frames",
        "mask_bytes",
        "request",
        "rows",
        "session",
        "unanswered",
    )

    def __init__(
        self,
        session: Session,
        request: int,
        frames: Sequence[memoryview],
        arrived: float,
        mask_bytes: int = 0,
    ) -> None:
        """`frames`: the three of EVALUATE, checked. `mask_bytes`: size of the mask of a row's legal actions,
        0 where they are a list."""
        self.session = session
        self.request = request
        self.frames = frames
        self.arrived = arrived
        self.rows = self.unanswered = len(frames[1]) // COUNT_BYTES
        self.mask_bytes = mask_bytes
        self.dropped = False
        self._offsets: list[int] | None = None
        self.actions = self.offsets[-1] if mask_bytes else len(frames[2]) // ACTION_BYTES
        """Number of legal actions of all rows."""

    @property
    def offsets(self) -> list[int]:
        """Return where the actions of each row begin, and the end of the last. With lists, only a request
        that is cut needs them."""
        if self._offsets is None:
            counts = np.frombuffer(self.frames[1], np.uint16)
            self._offsets = [0, *np.cumsum(counts, dtype=np.int64).tolist()]
        return self._offsets


@dataclass(eq=False, slots=True)
class Piece:
    """Rows `first .. first + rows` of a request."""

    of: Request
    first: int
    rows: int
    deaths: int = 0
    """Evaluators that died computing the whole piece."""
    wrong_answers: int = 0
    """How often the answer to its rows was not a probability, from evaluators that stayed alive."""

    def split(self, rows: int) -> Piece:
        """Cut off the first `rows` rows and return them; the rest stays in `self`."""
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
    def is_whole(self) -> bool:
        """Return whether the piece is the whole of its request."""
        return self.rows == self.of.rows

    @property
    def action_range(self) -> tuple[int, int]:
        if self.is_whole:
            return 0, self.of.actions
        offsets = self.of.offsets
        return offsets[self.first], offsets[self.first + self.rows]

    def frames(self) -> tuple[memoryview, memoryview, memoryview]:
        """Return features, counts and actions of its rows, without a copy."""
        features, counts, actions = self.of.frames
        width, end = len(features) // self.of.rows, self.first + self.rows
        if mask_bytes := self.of.mask_bytes:
            start, stop = mask_bytes * self.first, mask_bytes * end
        else:
            start, stop = (ACTION_BYTES * at for at in self.action_range)
        return (
            features[width * self.first : width * end],
            counts[COUNT_BYTES * self.first : COUNT_BYTES * end],
            actions[start:stop],
        )

    def __repr__(self) -> str:
        return f"Piece({self.of.session!r}, {self.of.request}, {self.first}+{self.rows})"


class SendBatch(NamedTuple):
    """Give these pieces to this device, joined in this order (see `gather`)."""

    evaluator: EvaluatorId
    batch: int
    pieces: tuple[Piece, ...]
    rows: int
    waited: float
    """Mean seconds that its rows were queued."""


class Answer(NamedTuple):
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


class Refuse(NamedTuple):
    """Tell the session that `rows` rows of this request will not be answered."""

    session: Session
    request: int
    code: Code
    reason: str
    rows: int
    retry_after: float = 0.0


Instruction = SendBatch | Answer | Refuse


def gather(pieces: tuple[Piece, ...]) -> Sequence[bytes | memoryview]:
    """Return the frames of a batch. A request that is alone and whole is passed on without a copy."""
    if len(pieces) == 1 and pieces[0].is_whole:
        return pieces[0].of.frames
    return [b"".join(parts) for parts in zip(*(piece.frames() for piece in pieces), strict=True)]
