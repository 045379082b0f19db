"""Rows of many sessions, shared out by deficit round-robin, so that no greedy session starves the others."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from server.pieces import Piece, Request, Session

QUANTUM = 128
"""Rows that a session may send per turn; one full message of a worker."""


@dataclass(eq=False, slots=True)
class _Waiting:
    """A session's pieces, and how many rows are left of its turn."""

    pieces: deque[Piece] = field(default_factory=deque)
    deficit: int = 0


class FairQueue:
    """First in, first out within a session; sessions take turns."""

    def __init__(self) -> None:
        self.rows = 0
        """Rows in the queue."""
        self._waiting: dict[Session, _Waiting] = {}
        self._turns: deque[Session] = deque()

    def append(self, piece: Piece) -> None:
        session = piece.of.session
        waiting = self._waiting.get(session)
        if waiting is None:
            waiting = self._waiting[session] = _Waiting()
            self._turns.append(session)
        waiting.pieces.append(piece)
        self.rows += piece.rows

    def take(self, room: int) -> tuple[Piece, ...]:
        """Take up to `room` rows. A session whose turn is cut short for lack of room keeps its place."""
        taken: list[Piece] = []
        while room and self._turns:
            waiting = self._waiting[self._turns[0]]
            if waiting.deficit == 0:
                waiting.deficit = QUANTUM
            while room and waiting.deficit and waiting.pieces:
                piece = waiting.pieces[0]
                rows = min(piece.rows, room, waiting.deficit)
                taken.append(waiting.pieces.popleft() if rows == piece.rows else piece.split(rows))
                waiting.deficit -= rows
                self.rows -= rows
                room -= rows
            if not waiting.pieces:
                del self._waiting[self._turns.popleft()]
            elif waiting.deficit == 0:
                self._turns.rotate(-1)
        return tuple(taken)

    def drop_session(self, session: Session) -> None:
        """Drop everything that a session has in the queue."""
        waiting = self._waiting.pop(session, None)
        if waiting is not None:
            self._turns.remove(session)
            self.rows -= sum(piece.rows for piece in waiting.pieces)

    def drop_request(self, request: Request) -> None:
        """Drop the queued rows of one request."""
        waiting = self._waiting.get(request.session)
        if waiting is None:
            return
        self.rows -= sum(piece.rows for piece in waiting.pieces if piece.of is request)
        waiting.pieces = deque(piece for piece in waiting.pieces if piece.of is not request)
        if not waiting.pieces:
            self.drop_session(request.session)
