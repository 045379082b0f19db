"""Rows of many sessions of several owners: owners take turns, then the sessions of each owner. A hundred
sessions with one key get no more turns than one.

An owner is a key, or a session without a key. Each of azserver's own workers has a turn like a key, which
guarantees them a share. But it saves its turns up until it can send a whole message, because every answer
costs the front the same, however many rows it has.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

from server.fair_queue import QUANTUM, FairQueue
from server.pieces import Piece, Request, Session

LEAST_TURN = 16
"""Least number of rows in a turn. A turn is a batch's room divided by the number of waiting owners. So an
owner with few rows in flight (because there are many owners) is in every batch, and does not wait for a round
of long turns."""

OwnerOf = Callable[[Session], Hashable]


@dataclass(eq=False, slots=True)
class _Owned:
    """What the sessions of one owner wait for."""

    queue: FairQueue = field(default_factory=FairQueue)
    saved: int = 0
    """Rows of turns that it has not used yet."""
    left: int = 0
    """Rows left of its present turn."""


class OwnerQueue:
    """Deficit round-robin between owners; `server.fair_queue` between the sessions of each."""

    def __init__(self, owner_of: OwnerOf, is_local: Callable[[Hashable], bool] = lambda _: False) -> None:
        """`owner_of` must return the same owner for as long as a session has rows here. `is_local(owner)`:
        whether it is one of azserver's own workers."""
        self.rows = 0
        """Rows in the queue."""
        self._owner_of = owner_of
        self._is_local = is_local
        self._owned: dict[Hashable, _Owned] = {}
        self._turns: deque[Hashable] = deque()

    def append(self, piece: Piece) -> None:
        owner = self._owner_of(piece.of.session)
        owned = self._owned.get(owner)
        if owned is None:
            owned = self._owned[owner] = _Owned()
            self._turns.append(owner)
        owned.queue.append(piece)
        self.rows += piece.rows

    def take(self, room: int) -> tuple[Piece, ...]:
        """Take up to `room` rows. An owner whose turn is cut short for lack of room keeps its place."""
        taken: list[Piece] = []
        turn = max(LEAST_TURN, min(QUANTUM, room // max(1, len(self._turns))))
        while room and self._turns:
            owner = self._turns[0]
            owned = self._owned[owner]
            if owned.left == 0:
                owned.saved += turn
                wanted = min(QUANTUM, owned.queue.rows) if self._is_local(owner) else owned.saved
                if owned.saved < wanted:
                    self._turns.rotate(-1)
                    continue
                owned.left = wanted
                owned.saved -= wanted
            before = owned.queue.rows
            taken += owned.queue.take(min(room, owned.left))
            rows = before - owned.queue.rows
            owned.left -= rows
            room -= rows
            self.rows -= rows
            if not owned.queue.rows:
                del self._owned[self._turns.popleft()]
            elif owned.left == 0:
                self._turns.rotate(-1)
        return tuple(taken)

    def drop_session(self, session: Session) -> None:
        """Drop everything that a session has in the queue."""
        self._drop(session, lambda queue: queue.drop_session(session))

    def drop_request(self, request: Request) -> None:
        """Drop the queued rows of one request."""
        self._drop(request.session, lambda queue: queue.drop_request(request))

    def _drop(self, session: Session, drop: Callable[[FairQueue], None]) -> None:
        owner = self._owner_of(session)
        owned = self._owned.get(owner)
        if owned is None:
            return
        before = owned.queue.rows
        drop(owned.queue)
        self.rows -= before - owned.queue.rows
        if not owned.queue.rows:
            del self._owned[owner]
            self._turns.remove(owner)
