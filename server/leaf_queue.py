"""The queue of leaves, as a pure object: it decides which rows go to which device, and when.

The rule is that of Triton's dynamic batcher: a free device takes the largest batch available and
never waits for more, while a busy one lets rows collect. There are no timers. A request may be split over
batches and answered in parts (`server.pieces`).

Owners share by deficit round-robin (`FairQueue`), so one greedy client cannot starve the others. An owner
is a key, or a session without a key: a hundred sessions with one key get no more turns than one. Each of
azserver's own workers has a turn like a key, but saves its turns up until it can send a whole message,
because every answer costs the front the same, however many rows it has.

When a device dies, its rows return to the queue as suspects. Each is tried once more, alone, so a request
that kills every device it touches is found, and its neighbours are not blamed. When a device stays alive
but some of its answers are not probabilities, those rows are known. The others are answered at once. The
wrong rows are tried once more on their session's next turn, together with other rows, so they cost only
the session that sent them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from protocol.errors import Code
from server.pieces import Answer, EvaluatorId, Instruction, Piece, Refuse, Request, SendBatch, Session

MAX_DEATHS = 2
"""Devices that may die with the same rows before their request is refused."""
MAX_WRONG_ANSWERS = 2
"""How often the answer to the same rows may be invalid (not a probability) before their request is
refused."""
MAX_QUEUED_ROWS = 1 << 21
"""A fuse against more sessions than memory can hold (chess: about 1 kB a row)."""
QUANTUM = 128
"""Most rows in a turn; one full message of a worker."""
LEAST_TURN = 16
"""Least number of rows in a turn. A turn is a batch's room divided by the number of waiting owners. So an
owner with few rows in flight (because there are many owners) is in every batch, and does not wait for a round
of long turns."""

OwnerOf = Callable[[Session], Hashable]


@dataclass(eq=False, slots=True)
class Sent:
    """A batch that a device is computing."""

    pieces: tuple[Piece, ...]
    rows: int
    actions: int
    """Number of legal actions of all its rows."""
    at: float
    """When it was sent."""

    def counts(self) -> npt.NDArray[np.uint16]:
        """Return [rows] the number of legal actions of each row."""
        return np.frombuffer(b"".join(piece.frames()[1] for piece in self.pieces), np.uint16)


@dataclass(eq=False, slots=True)
class _Device:
    target_rows: int
    pipeline: int
    sent: dict[int, Sent] = field(default_factory=dict)
    rows: int = 0
    """Rows in all batches sent to it."""
    tries_suspects: bool = False
    """True while its only rows are suspects that may have killed a device."""

    def takes(self, queued: int) -> bool:
        """Return whether it takes a batch when `queued` rows wait: any number for a free device; for a busy
        one with room half of the rows it has, at most half of `target_rows`."""
        if len(self.sent) >= self.pipeline or self.tries_suspects:
            return False
        return queued >= min(self.rows, self.target_rows) // 2


@dataclass
class QueueCounts:
    """Counters of the queue, for the figures."""

    batches: int = 0
    late_batches: int = 0
    """Answers to batches that this queue does not know (any more)."""
    redone_rows: int = 0
    wrong_rows: int = 0
    """Rows whose answer was not a probability."""
    poisoned: int = 0


class LeafQueue:
    """Events in, instructions out. Every event may free capacity, so each ends in `_dispatch`."""

    def __init__(
        self,
        max_queued_rows: int = MAX_QUEUED_ROWS,
        mask_bytes: int = 0,
        owner_of: OwnerOf = lambda session: session,
        is_local: Callable[[Hashable], bool] = lambda _: False,
    ) -> None:
        """`mask_bytes`: size of the mask of a row's legal actions, 0 where they come as a list.
        `owner_of(session)`: the owner in whose turn its rows are sent; by default each session is its own
        owner. `is_local(owner)`: whether that is one of azserver's own workers."""
        self.counts = QueueCounts()
        self._max_queued_rows = max_queued_rows
        self._mask_bytes = mask_bytes
        self._queue = FairQueue(owner_of, is_local)
        self._suspect_rows = 0
        self._suspects: deque[Piece] = deque()
        self._requests: dict[Session, dict[int, Request]] = {}
        self._devices: dict[EvaluatorId, _Device] = {}
        self._next_batch = 1

    @property
    def queued_rows(self) -> int:
        """Rows that wait for a device."""
        return self._queue.rows + self._suspect_rows

    @property
    def sent_rows(self) -> int:
        """Rows that devices are computing."""
        return sum(device.rows for device in self._devices.values())

    # ---- events of sessions -----------------------------------------------------------------

    def request(
        self, session: Session, request: int, frames: Sequence[memoryview], now: float
    ) -> list[Instruction]:
        """Queue leaves that have arrived. `frames` (of EVALUATE) must have been checked; they are kept until
        answered.

        A request sent again while it is still being processed is ignored, because the first one will be
        answered.
        """
        mine = self._requests.setdefault(session, {})
        if request in mine:
            return []
        entry = Request(session, request, frames, now, self._mask_bytes)
        if self.queued_rows + entry.rows > self._max_queued_rows:
            reason = f"{self.queued_rows} leaves are queued already"
            return [Refuse(session, request, Code.BUSY, reason, entry.rows, retry_after=1.0)]
        mine[request] = entry
        self._queue.append(Piece(entry, 0, entry.rows))
        return self._dispatch(now)

    def knows(self, session: Session, request: int) -> bool:
        """Return whether this request is already being processed. A resend then needs nothing: the first is
        answered."""
        return request in self._requests.get(session, {})

    def cancel(self, session: Session) -> None:
        """Drop the queued rows of a session that is gone; its answers still on the way are discarded."""
        for entry in self._requests.pop(session, {}).values():
            entry.dropped = True
        self._queue.drop_session(session)
        self._drop_suspects()

    # ---- events of devices ------------------------------------------------------------------

    def evaluator_ready(
        self, evaluator: EvaluatorId, target_rows: int, pipeline: int, now: float
    ) -> list[Instruction]:
        """Add a device that has loaded weights. If it was up already, it is counted as having died."""
        lost = self.evaluator_died(evaluator, now) if evaluator in self._devices else []
        self._devices[evaluator] = _Device(max(1, target_rows), max(1, pipeline))
        return lost + self._dispatch(now)

    def evaluator_resized(self, evaluator: EvaluatorId, target_rows: int, now: float) -> list[Instruction]:
        """Change the batch size of a device that is up. Ignored if it is not up."""
        device = self._devices.get(evaluator)
        if device is None:
            return []
        device.target_rows = max(1, target_rows)
        return self._dispatch(now)

    def batch_done(
        self, evaluator: EvaluatorId, batch: int, now: float, wrong: npt.NDArray[np.bool_] | None = None
    ) -> list[Instruction]:
        """Handle the answers to a batch. Unknown batches are counted and ignored.

        `wrong`: [rows] True for rows of the batch whose answer is unusable; None: all are good.
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
        """Handle an unusable answer to a whole batch from a device that is alive."""
        sent = self._take_sent(evaluator, batch)
        if sent is None:
            return []
        refused = self._give_back(sent.pieces)
        return [*refused, *self._dispatch(now)]

    def evaluator_died(self, evaluator: EvaluatorId, now: float) -> list[Instruction]:
        """Put the unanswered rows of a dead device at the head of the queue, each request on its own."""
        device = self._devices.pop(evaluator, None)
        if device is None:
            return []
        refused: list[Instruction] = []
        for sent in device.sent.values():
            refused += self._give_back(sent.pieces)
        return refused + self._dispatch(now)

    def oldest(self) -> dict[EvaluatorId, float]:
        """Return when the oldest batch of each device that has any was sent."""
        devices = self._devices.items()
        return {name: min(batch.at for batch in one.sent.values()) for name, one in devices if one.sent}

    def sent(self, evaluator: EvaluatorId, batch: int) -> Sent | None:
        """Return a batch that this device is computing; None for any other batch."""
        device = self._devices.get(evaluator)
        return device.sent.get(batch) if device else None

    # ---- inside -----------------------------------------------------------------------------

    def _take_sent(self, evaluator: EvaluatorId, batch: int) -> Sent | None:
        device = self._devices.get(evaluator)
        if device is None or (sent := device.sent.pop(batch, None)) is None:
            self.counts.late_batches += 1
            return None
        device.rows -= sent.rows
        device.tries_suspects = False
        return sent

    def _answers(self, runs: Iterable[tuple[Piece, bool]]) -> Iterator[Answer]:
        """Yield the answers to the pieces of a batch, in order, except those marked as wrong."""
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
        """Queue rows with wrong answers behind the other rows of their session, or refuse them."""
        refused: list[Instruction] = []
        for piece in pieces:
            self.counts.wrong_rows += piece.rows
            if piece.of.dropped:
                continue
            piece.wrong_answers += 1
            if piece.wrong_answers >= MAX_WRONG_ANSWERS:
                reason = f"the answer to row {piece.first} was not a probability, {MAX_WRONG_ANSWERS} times"
                refused.append(self._poison(piece.of, reason))
                continue
            self._queue.append(piece)
            self.counts.redone_rows += piece.rows
        return refused

    def _poison(self, entry: Request, reason: str) -> Refuse:
        """Refuse the whole request, and remove its rows from the queue."""
        self.counts.poisoned += 1
        self._forget(entry)
        self._queue.drop_request(entry)
        self._drop_suspects()
        return Refuse(entry.session, entry.request, Code.POISON, reason, entry.unanswered)

    def _drop_suspects(self) -> None:
        self._suspects = deque(piece for piece in self._suspects if not piece.of.dropped)
        self._suspect_rows = sum(piece.rows for piece in self._suspects)

    def _dispatch(self, now: float) -> list[Instruction]:
        """Send batches while a device has room for queued rows, to the least loaded one first."""
        sends: list[Instruction] = []
        while queued := self._queue.rows + self._suspect_rows:
            name = self._next_device(queued)
            if name is None:
                break
            device = self._devices[name]
            if self._suspects:
                device.tries_suspects = True
                pieces = self._take_suspect(device.target_rows)
            else:
                pieces = self._queue.take(device.target_rows)
            rows = actions = 0
            waited = 0.0
            for piece in pieces:
                start, stop = piece.action_range
                rows, actions = rows + piece.rows, actions + stop - start
                waited += (now - piece.of.arrived) * piece.rows
            batch, self._next_batch = self._next_batch, self._next_batch + 1
            device.sent[batch] = Sent(pieces, rows, actions, now)
            device.rows += rows
            self.counts.batches += 1
            sends.append(SendBatch(name, batch, pieces, rows, waited / rows))
        return sends

    def _next_device(self, queued: int) -> EvaluatorId | None:
        """Return the least loaded device that takes a batch when `queued` rows wait."""
        best: EvaluatorId | None = None
        least = 0
        for name, device in self._devices.items():
            is_open = not device.sent if self._suspects else device.takes(queued)
            if is_open and (best is None or device.rows < least):
                best, least = name, device.rows
        return best

    def _take_suspect(self, room: int) -> tuple[Piece, ...]:
        piece = self._suspects[0]
        piece = piece.split(room) if piece.rows > room else self._suspects.popleft()
        self._suspect_rows -= piece.rows
        return (piece,)


def _runs(pieces: tuple[Piece, ...], wrong: npt.NDArray[np.bool_]) -> Iterator[tuple[Piece, bool]]:
    """Yield the pieces of a batch, cut where `wrong` [rows of the batch] changes, each with its value of
    `wrong`."""
    at = 0
    for piece in pieces:
        yield from piece.runs(wrong[at : at + piece.rows])
        at += piece.rows


@dataclass(eq=False, slots=True)
class _Waiting:
    """What an owner waits for."""

    pieces: deque[Piece] = field(default_factory=deque)
    rows: int = 0
    saved: int = 0
    """Rows of turns that it has not used yet."""
    left: int = 0
    """Rows left of its present turn."""


class FairQueue:
    """Owners take turns; first in, first out within an owner."""

    def __init__(self, owner_of: OwnerOf, is_local: Callable[[Hashable], bool] = lambda _: False) -> None:
        """`owner_of` must return the same owner for as long as a session has rows here. `is_local(owner)`:
        whether it is one of azserver's own workers."""
        self.rows = 0
        """Rows in the queue."""
        self._owner_of = owner_of
        self._is_local = is_local
        self._waiting: dict[Hashable, _Waiting] = {}
        self._turns: deque[Hashable] = deque()

    def append(self, piece: Piece) -> None:
        owner = self._owner_of(piece.of.session)
        waiting = self._waiting.get(owner)
        if waiting is None:
            waiting = self._waiting[owner] = _Waiting()
            self._turns.append(owner)
        waiting.pieces.append(piece)
        waiting.rows += piece.rows
        self.rows += piece.rows

    def take(self, room: int) -> tuple[Piece, ...]:
        """Take up to `room` rows. An owner whose turn is cut short for lack of room keeps its place."""
        taken: list[Piece] = []
        turn = max(LEAST_TURN, min(QUANTUM, room // max(1, len(self._turns))))
        while room and self._turns:
            owner = self._turns[0]
            waiting = self._waiting[owner]
            if waiting.left == 0:
                waiting.saved += turn
                wanted = min(QUANTUM, waiting.rows) if self._is_local(owner) else waiting.saved
                if waiting.saved < wanted:
                    self._turns.rotate(-1)
                    continue
                waiting.left = wanted
                waiting.saved -= wanted
            while room and waiting.left and waiting.pieces:
                piece = waiting.pieces[0]
                rows = min(piece.rows, room, waiting.left)
                taken.append(waiting.pieces.popleft() if rows == piece.rows else piece.split(rows))
                waiting.left -= rows
                waiting.rows -= rows
                self.rows -= rows
                room -= rows
            if not waiting.pieces:
                del self._waiting[self._turns.popleft()]
            elif waiting.left == 0:
                self._turns.rotate(-1)
        return tuple(taken)

    def drop_session(self, session: Session) -> None:
        """Drop everything that a session has in the queue."""
        self._keep(session, lambda piece: piece.of.session != session)

    def drop_request(self, request: Request) -> None:
        """Drop the queued rows of one request."""
        self._keep(request.session, lambda piece: piece.of is not request)

    def _keep(self, session: Session, stays: Callable[[Piece], bool]) -> None:
        """Keep only the pieces of the session's owner for which `stays` is true."""
        owner = self._owner_of(session)
        waiting = self._waiting.get(owner)
        if waiting is None:
            return
        waiting.pieces = deque(filter(stays, waiting.pieces))
        rows = sum(piece.rows for piece in waiting.pieces)
        self.rows -= waiting.rows - rows
        waiting.rows = rows
        if not rows:
            del self._waiting[owner]
            self._turns.remove(owner)
