"""Rows that wait for a device, shared out by deficit round-robin between owners, so that no greedy one
starves the others.

An owner is a key, or a session without a key: a hundred sessions with one key get no more turns than one.
Within an owner, first in is first out. Each of azserver's own workers has a turn like a key, which guarantees
it a share. But it saves its turns up until it can send a whole message, because every answer costs the front
the same, however many rows it has.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

from server.pieces import Piece, Request, Session

QUANTUM = 128
"""Most rows in a turn; one full message of a worker."""
LEAST_TURN = 16
"""Least number of rows in a turn. A turn is a batch's room divided by the number of waiting owners. So an
owner with few rows in flight (because there are many owners) is in every batch, and does not wait for a round
of long turns."""

OwnerOf = Callable[[Session], Hashable]


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
