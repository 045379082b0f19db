"""Which rows go to which device when: the queue of leaves, as a pure object.

The rule is Triton's (docs/user_guide/batcher.md): a free device takes the largest batch there is and
never waits for more; a busy one collects. No timers. Between sessions it is deficit round-robin, so one
greedy client cannot starve the others; a request may be split over batches and answered in parts.

A device that dies gives its rows back. They are suspects then: each is tried once more, alone, so that
a request that kills whatever touches it is found out and its neighbours are not blamed.

A device that lives, but answers some rows with numbers that are no probabilities, has told which rows they
are. The others are answered at once; those rows are tried once more when it is their session's turn again,
beside whatever else is in that batch. So they cost nobody but the session that they came from.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from protocol.errors import Code
from protocol.frames import LeafFrames
from server.fair_queue import FairQueue
from server.pieces import Answer, EvaluatorId, Instruction, Piece, Refuse, Request, SendBatch, Session

MAX_DEATHS = 2
"""Devices that may die with the same rows before those rows are refused."""
MAX_WRONG_ANSWERS = 2
"""Answers to the same rows that may be no probabilities before those rows are refused."""
MAX_QUEUED_ROWS = 1 << 21
"""Fuse against more sessions than memory can hold (chess: about 1 kB a row)."""


@dataclass(eq=False, slots=True)
class _Sent:
    pieces: tuple[Piece, ...]
    rows: int
    sent: float
    alone: bool

    @property
    def actions(self) -> int:
        return sum(stop - start for start, stop in (piece.action_range for piece in self.pieces))


@dataclass(eq=False, slots=True)
class _Device:
    target_rows: int
    pipeline: int
    sent: dict[int, _Sent] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        return sum(batch.rows for batch in self.sent.values())

    def least(self) -> int:
        """Rows worth sending now: anything to a free device, half of what it computes to a busy one."""
        return max(1, min(self.rows, self.target_rows) // 2)

    def has_room(self) -> bool:
        return len(self.sent) < self.pipeline and not any(batch.alone for batch in self.sent.values())


@dataclass
class QueueCounts:
    """What the queue has seen, for figures."""

    batches: int = 0
    rows_sent: int = 0
    late_batches: int = 0
    """Answers to batches this queue does not know (any more)."""
    redone_rows: int = 0
    wrong_rows: int = 0
    """Rows whose answer was no probability."""
    poisoned: int = 0


class LeafQueue:
    """Events in, instructions out; every event may free a place, so each ends in `_dispatch`."""

    def __init__(self, max_queued_rows: int = MAX_QUEUED_ROWS) -> None:
        self.counts = QueueCounts()
        self._max_queued_rows = max_queued_rows
        self._queue = FairQueue()
        self._suspect_rows = 0
        self._suspects: deque[Piece] = deque()
        self._requests: dict[Session, dict[int, Request]] = {}
        self._devices: dict[EvaluatorId, _Device] = {}
        self._next_batch = 1

    @property
    def queued_rows(self) -> int:
        """Rows that no device has."""
        return self._queue.rows + self._suspect_rows

    # ---- events of sessions -----------------------------------------------------------------

    def request(self, session: Session, request: int, frames: LeafFrames, now: float) -> list[Instruction]:
        """Leaves have arrived. `frames` must have been checked; they are kept until answered.

        A request sent again while it is in work is ignored: the first is answered.
        """
        mine = self._requests.setdefault(session, {})
        if request in mine:
            return []
        rows = len(frames.counts)
        if self.queued_rows + rows > self._max_queued_rows:
            reason = f"{self.queued_rows} leaves are queued already"
            return [Refuse(session, request, Code.BUSY, reason, rows, retry_after=1.0)]
        offsets = np.zeros(rows + 1, np.int64)
        np.cumsum(frames.counts, out=offsets[1:])
        entry = Request(session, request, frames, offsets, now, rows)
        mine[request] = entry
        self._queue.append(Piece(entry, 0, rows))
        return self._dispatch(now)

    def knows(self, session: Session, request: int) -> bool:
        """Whether this request is in work already (a resend needs nothing, the first is answered)."""
        return request in self._requests.get(session, {})

    def cancel(self, session: Session) -> None:
        """The session is gone: its queued rows are dropped, answers on their way go nowhere."""
        for entry in self._requests.pop(session, {}).values():
            entry.dropped = True
        self._queue.drop_session(session)
        self._drop_suspects()

    # ---- events of devices ------------------------------------------------------------------

    def evaluator_ready(
        self, evaluator: EvaluatorId, target_rows: int, pipeline: int, now: float
    ) -> list[Instruction]:
        """A device has come up, with weights loaded. One that was there already is counted as died."""
        lost = self.evaluator_died(evaluator, now) if evaluator in self._devices else []
        self._devices[evaluator] = _Device(max(1, target_rows), max(1, pipeline))
        return lost + self._dispatch(now)

    def batch_done(
        self, evaluator: EvaluatorId, batch: int, now: float, wrong: npt.NDArray[np.bool_] | None = None
    ) -> list[Instruction]:
        """The rows of a batch are computed. Unknown batches are counted and ignored.

        `wrong`: [rows] rows of the batch whose answer is no use; None: all are good.
        """
        sent = self._take_sent(evaluator, batch)
        if sent is None:
            return []
        if wrong is None:
            answers: list[Instruction] = list(self._answers((piece, False) for piece in sent.pieces))
            return [*answers, *self._dispatch(now)]
        runs = list(_runs(sent.pieces, wrong))
        answers = list(self._answers(runs))
        refused = self._try_again([piece for piece, is_wrong in runs if is_wrong])
        return [*answers, *refused, *self._dispatch(now)]

    def batch_failed(self, evaluator: EvaluatorId, batch: int, now: float) -> list[Instruction]:
        """The device lives, but what it answered to this batch is no use."""
        sent = self._take_sent(evaluator, batch)
        if sent is None:
            return []
        refused = self._give_back(sent.pieces)
        return [*refused, *self._dispatch(now)]

    def evaluator_died(self, evaluator: EvaluatorId, now: float) -> list[Instruction]:
        """Its unanswered rows go to the head of the queue, each on its own."""
        device = self._devices.pop(evaluator, None)
        if device is None:
            return []
        refused: list[Instruction] = []
        for sent in device.sent.values():
            refused += self._give_back(sent.pieces)
        return refused + self._dispatch(now)

    def stuck(self, older_than: float, now: float) -> list[EvaluatorId]:
        """Devices that have been at one batch for more than `older_than` seconds."""
        return [
            name
            for name, device in self._devices.items()
            if any(now - batch.sent > older_than for batch in device.sent.values())
        ]

    def expected(self, evaluator: EvaluatorId, batch: int) -> tuple[int, int] | None:
        """Rows and legal actions in a batch that this device is at; None for any other batch."""
        device = self._devices.get(evaluator)
        sent = device.sent.get(batch) if device else None
        return None if sent is None else (sent.rows, sent.actions)

    def legal_counts(self, evaluator: EvaluatorId, batch: int) -> npt.NDArray[np.uint16]:
        """[rows] legal actions of each row in a batch that this device is at (KeyError for any other)."""
        pieces = self._devices[evaluator].sent[batch].pieces
        return np.concatenate([piece.of.frames.counts[piece.first :][: piece.rows] for piece in pieces])

    # ---- inside -----------------------------------------------------------------------------

    def _take_sent(self, evaluator: EvaluatorId, batch: int) -> _Sent | None:
        device = self._devices.get(evaluator)
        sent = device.sent.pop(batch, None) if device else None
        if sent is None:
            self.counts.late_batches += 1
        return sent

    def _answers(self, runs: Iterable[tuple[Piece, bool]]) -> Iterator[Answer]:
        """Answers to the pieces of a batch, in its order, but for those that are marked as wrong."""
        at = actions_at = 0
        for piece, is_wrong in runs:
            start, stop = piece.action_range
            entry, actions_end = piece.of, actions_at + stop - start
            if not (is_wrong or entry.dropped):
                yield Answer(
                    entry.session, entry.request, piece.first, piece.rows, at, actions_at, actions_end
                )
                entry.unanswered -= piece.rows
                if entry.unanswered == 0:
                    self._forget(entry)
            at, actions_at = at + piece.rows, actions_end

    def _forget(self, entry: Request) -> None:
        entry.dropped = True
        mine = self._requests.get(entry.session)
        if mine is not None:
            mine.pop(entry.request, None)
            if not mine:
                del self._requests[entry.session]

    def _give_back(self, pieces: tuple[Piece, ...]) -> list[Instruction]:
        refused: list[Instruction] = []
        for piece in pieces:
            if piece.of.dropped:
                continue
            piece.deaths += 1
            if piece.deaths >= MAX_DEATHS:
                refused.append(self._poison(piece.of, f"{MAX_DEATHS} evaluators failed on this request"))
                continue
            self._suspects.append(piece)
            self._suspect_rows += piece.rows
            self.counts.redone_rows += piece.rows
        return refused

    def _try_again(self, pieces: list[Piece]) -> list[Instruction]:
        """Queue rows with wrong answers behind the others of their session, or refuse them."""
        refused: list[Instruction] = []
        for piece in pieces:
            self.counts.wrong_rows += piece.rows
            if piece.of.dropped:
                continue
            piece.wrong_answers += 1
            if piece.wrong_answers >= MAX_WRONG_ANSWERS:
                reason = f"the answer to row {piece.first} was no probability, {MAX_WRONG_ANSWERS} times"
                refused.append(self._poison(piece.of, reason))
                continue
            self._queue.append(piece)
            self.counts.redone_rows += piece.rows
        return refused

    def _poison(self, entry: Request, reason: str) -> Refuse:
        """Refuse the whole request, and take what is still queued of it out."""
        self.counts.poisoned += 1
        self._forget(entry)
        self._queue.drop_request(entry)
        self._drop_suspects()
        return Refuse(entry.session, entry.request, Code.POISON, reason, entry.unanswered)

    def _drop_suspects(self) -> None:
        self._suspects = deque(piece for piece in self._suspects if not piece.of.dropped)
        self._suspect_rows = sum(piece.rows for piece in self._suspects)

    def _dispatch(self, now: float) -> list[Instruction]:
        """Send while some device has room for what is queued, the least loaded one first."""
        sends: list[Instruction] = []
        while self.queued_rows and (name := self._next_device()) is not None:
            sends.append(self._send(name, now))
        return sends

    def _next_device(self) -> EvaluatorId | None:
        best: EvaluatorId | None = None
        best_rows = -1
        for name, device in self._devices.items():
            rows = device.rows
            open_to_it = not device.sent if self._suspects else device.has_room()
            if open_to_it and self.queued_rows >= device.least() and (best is None or rows < best_rows):
                best, best_rows = name, rows
        return best

    def _send(self, name: EvaluatorId, now: float) -> SendBatch:
        device = self._devices[name]
        alone = bool(self._suspects)
        pieces = self._take_suspect(device.target_rows) if alone else self._queue.take(device.target_rows)
        rows = sum(piece.rows for piece in pieces)
        batch, self._next_batch = self._next_batch, self._next_batch + 1
        device.sent[batch] = _Sent(pieces, rows, now, alone)
        self.counts.batches += 1
        self.counts.rows_sent += rows
        waited = sum((now - piece.of.arrived) * piece.rows for piece in pieces) / rows
        return SendBatch(name, batch, pieces, waited)

    def _take_suspect(self, room: int) -> tuple[Piece, ...]:
        piece = self._suspects[0]
        piece = piece.split(room) if piece.rows > room else self._suspects.popleft()
        self._suspect_rows -= piece.rows
        return (piece,)


def _runs(pieces: tuple[Piece, ...], wrong: npt.NDArray[np.bool_]) -> Iterator[tuple[Piece, bool]]:
    """The pieces of a batch, cut where `wrong` [rows of the batch] changes, each with what it is."""
    at = 0
    for piece in pieces:
        yield from piece.runs(wrong[at : at + piece.rows])
        at += piece.rows
