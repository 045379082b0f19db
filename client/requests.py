"""Which rows of which requests are still unanswered, and when each request must be (re)sent.

Pure bookkeeping for `RemoteEvaluator`: no socket, no clock, no futures. A request is a message of up to
`MAX_ROWS` leaves; it may be answered in parts, in any order, twice or never. Evaluating is a pure function of
weights and position, so sending a request again is harmless, and each row counts once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")

PATIENCE = 10.0
"""Seconds until an unanswered request is sent again; doubles each time the same request is sent."""
LONGEST_PATIENCE = 160.0
"""Largest value of that time in seconds, so that an answer lost many times is still requested again."""


@dataclass(slots=True)
class _Request(Generic[T]):
    payload: T
    rows: int
    unanswered: int
    """Bit i is set while row i is unanswered."""
    patience: float
    deadline: float = 0.0
    """When to send the request again; meaningless while it waits in the send queue."""
    sent: bool = False
    """Whether its rows are counted as in flight."""


class RequestTable(Generic[T]):
    """Requests in order of age, each with an opaque payload that is returned with its answers.

    Credits are the leaves that the server allows in flight; 0 while there is no session.
    """

    def __init__(self, patience: float = PATIENCE) -> None:
        self.credits = 0
        self.in_flight = 0
        """Rows of requests sent in this session and not completely answered (all their rows count)."""
        self._patience = patience
        self._requests: dict[int, _Request[T]] = {}
        self._to_send: deque[int] = deque()
        self._next = 1

    def __len__(self) -> int:
        return len(self._requests)

    @property
    def unsent(self) -> bool:
        """Return whether a request waits to be sent (again)."""
        return bool(self._to_send)

    @property
    def room(self) -> int:
        """Return how many rows may still be opened: credits not used by requests in flight or waiting to be
        sent."""
        waiting = sum(self._requests[request].rows for request in self._to_send)
        return max(0, self.credits - self.in_flight - waiting)

    def open(self, payload: T, rows: int) -> int:
        """Add a new request and return its id; `take` returns it for sending."""
        request = self._next
        self._next += 1
        self._requests[request] = _Request(payload, rows, (1 << rows) - 1, self._patience)
        self._to_send.append(request)
        return request

    def take(self, now: float) -> list[tuple[int, int, T]]:
        """Return `(id, rows, payload)` of the requests to send now, within the credits.

        A request larger than all credits is sent alone (a later session may grant fewer).
        """
        taken = []
        while self._to_send and self.credits:
            entry = self._requests[self._to_send[0]]
            if self.in_flight and self.in_flight + entry.rows > self.credits:
                break
            request = self._to_send.popleft()
            self.in_flight += entry.rows
            entry.sent, entry.deadline = True, now + entry.patience
            entry.patience = min(2 * entry.patience, LONGEST_PATIENCE)
            taken.append((request, entry.rows, entry.payload))
        return taken

    def payload(self, request: int) -> T | None:
        """Return the payload of a request that is not finished; None for others."""
        entry = self._requests.get(request)
        return None if entry is None else entry.payload

    def answer(self, request: int, first: int, rows: int) -> tuple[T, Sequence[int]] | None:
        """Return the payload, and those of the rows `first .. first + rows` that were unanswered.

        Returns None if the answer must be ignored: an unknown or finished request, or rows it does not have.
        """
        entry = self._requests.get(request)
        if entry is None or rows <= 0 or first < 0 or first + rows > entry.rows:
            return None
        part = ((1 << rows) - 1) << first
        new = entry.unanswered & part
        entry.unanswered &= ~part
        if not entry.unanswered:
            self._forget(request)
        if new == part:
            return entry.payload, range(first, first + rows)
        return entry.payload, [row for row in range(first, first + rows) if new >> row & 1]

    def give_up(self, request: int) -> tuple[T, Sequence[int]] | None:
        """Return payload and unanswered rows of a request that the server will never answer, and forget
        it."""
        entry = self._requests.get(request)
        return None if entry is None else self.answer(request, 0, entry.rows)

    def postpone(self, request: int, until: float) -> None:
        """Send the request again at `until`, because the server did not accept it now."""
        entry = self._requests.get(request)
        if entry is not None and entry.sent:
            entry.deadline = until

    def expire(self, now: float) -> int:
        """Put requests whose deadline has passed back into the queue of `take`. Returns how many."""
        late = [key for key, entry in self._requests.items() if entry.sent and entry.deadline <= now]
        self._unsend(late)
        return len(late)

    def joined(self, credits: int) -> None:  # noqa: A002 (the protocol's word)
        """Begin a new session: the server knows none of our requests, so all must be sent again."""
        self.credits = credits
        self._unsend([key for key, entry in self._requests.items() if entry.sent])

    def granted(self, credits: int) -> None:  # noqa: A002
        """Change the number of leaves that the server allows; leaves in flight stay in flight."""
        self.credits = credits

    def lost(self) -> None:
        """End the session: nothing may be sent until the next `joined`."""
        self.credits = 0

    def next_deadline(self) -> float | None:
        """Return when `expire` must be called at the latest; None while nothing is in flight."""
        return min((entry.deadline for entry in self._requests.values() if entry.sent), default=None)

    def _unsend(self, requests: list[int]) -> None:
        for request in requests:
            entry = self._requests[request]
            entry.sent = False
            self.in_flight -= entry.rows
        self._to_send.extendleft(reversed(requests))

    def _forget(self, request: int) -> None:
        entry = self._requests.pop(request)
        if entry.sent:
            self.in_flight -= entry.rows
        else:
            self._to_send.remove(request)
