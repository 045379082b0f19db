"""Evaluations by the server. Submitted leaves travel in messages of at most `LEAVES_PER_MESSAGE` leaves.

Leaves beyond the server's credits wait, and so do the searches that submitted them. `RequestTable` is the
pure bookkeeping, without socket, clock and futures: which rows of which requests are still unanswered, and
when each request must be (re)sent. A request may be answered in parts, in any order, twice or never.
Evaluating is a pure function of weights and position, so sending a request again is harmless. Each row is
counted once; the pool's tickets drop an answer that comes twice.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from azselfplay.games.packed import LegalMasks
from azselfplay.games.spec import Game
from azselfplay.search.evaluator import Evaluations, Part, Reply, WaitingLeaves, deliver, fail
from protocol.errors import Code
from protocol.frames import LeafBatch, check_evaluations
from protocol.messages import Evaluate, Evaluated, Refused, Welcome

LEAVES_PER_MESSAGE = 128
"""Leaves in one EVALUATE: enough to make the cost of a message small, few enough to fill batches evenly."""
MESSAGE_BYTES = 1024 * 1024
"""Most bytes of features or of priors in one message, unless a single leaf has more: a quarter of what either
side accepts, and of what the server queues for a player."""
SEND_AGAIN = 0.2
"""Seconds until a message that the socket did not accept is sent again."""
RETRY_AFTER = 1.0
"""Seconds until a request refused by a full server is sent again, when the server names no time."""
PASSING = frozenset({Code.BUSY.value, Code.OVER_CREDIT.value, Code.NO_WEIGHTS.value})
"""Refusals that are not caused by the request itself."""
PATIENCE = 10.0
"""Seconds until an unanswered request is sent again; doubles each time the same request is sent."""
LONGEST_PATIENCE = 160.0
"""Longest such time in seconds, so that an answer that was lost many times is still requested again."""
log = logging.getLogger(__name__)

T = TypeVar("T")
Send = Callable[..., bool]
"""`send(message, *frames)`, False if the message did not go out (`link.connection.Connection.send`)."""


def rows_per_message(game: Game, history: int) -> int:
    """Return how many leaves of a game a message has at most: fewer where they are large."""
    largest = max(8 * game.feature_words(history), 2 * game.max_legal, game.mask_bytes)
    return max(1, min(LEAVES_PER_MESSAGE, MESSAGE_BYTES // largest))


class LeafRefused(Exception):
    """The server will not evaluate this leaf; the game it belongs to is abandoned."""


class RemoteEvaluator:
    """`search.evaluator.Evaluator` over a connection. Its methods may only be called in the event loop's
    thread.

    The owner connects it: the connection calls `joined` and `lost`, and `on_evaluated` and `on_refused` for
    these two messages. `close` ends the timer.
    """

    def __init__(
        self, send: Send, *, masks: LegalMasks | None = None, most_rows: int = LEAVES_PER_MESSAGE
    ) -> None:
        """`masks`: encodes the legal actions where they are not sent as a list. `most_rows`: most leaves in a
        message (`rows_per_message`)."""
        self.version = 0
        """Weights version of the newest answer."""
        self.leaves = 0
        """Leaves answered since the start."""
        self._send = send
        self._loop = asyncio.get_running_loop()
        self._waiting = WaitingLeaves()
        """Leaves not yet in a message; bounded by the number of searches."""
        self._requests: RequestTable[tuple[LeafBatch, list[Part]]] = RequestTable()
        """Each with the leaves that were sent, and the searches that wait for them."""
        self._masks = masks
        self._most_rows = most_rows
        self._timer: asyncio.TimerHandle | None = None

    def submit(self, batch: LeafBatch, reply: Reply) -> None:
        """Submit some leaves. `reply.failed` gets LeafRefused if the server will never answer."""
        self._waiting.put(batch, reply)
        self._flush()

    def joined(self, welcome: Welcome) -> None:
        self._requests.joined(welcome.credits)
        self._flush()

    def granted(self, credits: int) -> None:  # noqa: A002 (the protocol's word)
        """Change how many leaves the current session may have in flight."""
        self._requests.credits = credits
        self._flush()

    def lost(self) -> None:
        self._requests.credits = 0

    def close(self) -> None:
        self.lost()
        if self._timer is not None:
            self._timer.cancel()

    def on_evaluated(self, message: Evaluated, frames: Sequence[memoryview]) -> None:
        """Pass a (partial) answer to the searches that wait for it. If it raises BadMessage, nothing has
        changed, so the rows are requested again."""
        first, end = message.first, message.first + message.rows
        # None: the request was answered before, or given up. An answer may come twice after a reconnection.
        payload = self._requests.payload(message.request)
        if payload is None or end > payload[0].rows:
            return
        batch, parts = payload
        counts, total = batch.counts, len(batch.actions)
        # Most answers cover the whole request, and need no slices.
        if message.rows != len(counts):
            counts = counts[first:end]
            total = int(counts.sum(dtype=np.int64))
        priors, wdl = check_evaluations(message.rows, total, frames)
        answered = self._requests.answer(message.request, first, message.rows)
        if answered is None:
            return
        self.version = message.version
        # The server answers in the order of the mask, which differs from the search's own order.
        if self._masks is not None:
            begin = int(batch.counts[:first].sum(dtype=np.int64))
            priors = self._masks.as_listed(counts, batch.actions[begin : begin + total], priors)
        deliver(parts, batch.counts, first, Evaluations(priors, wdl, message.version))
        self.leaves += len(answered[1])
        # The answer has freed credits.
        if self._waiting or self._requests.unsent:
            self._flush()

    def on_refused(self, message: Refused) -> None:
        """Try again later if the refusal is temporary. Otherwise report it to the waiting searches."""
        if message.retry_after > 0 or message.code in PASSING:
            later = self._loop.time() + (message.retry_after or RETRY_AFTER)
            self._requests.postpone(message.request, later)
            self._set_timer()
            return
        given_up = self._requests.give_up(message.request)
        if given_up is None:
            return
        (_, parts), rows = given_up
        log.warning("the server refuses %d leaves: %s (%s)", len(rows), message.reason, message.code)
        fail(parts, rows, LeafRefused(message.reason))
        self._flush()

    def _flush(self) -> None:
        """Put waiting leaves into requests and send what the credits allow."""
        while self._waiting and (room := self._requests.room):
            batch, parts = self._waiting.take(min(self._most_rows, room))
            self._requests.open((batch, parts), batch.rows)
        # A request that the socket does not accept now counts as in flight, with a short deadline.
        now = self._loop.time()
        taken = self._requests.take(now)
        for request, rows, (batch, _) in taken:
            legal = batch.actions if self._masks is None else self._masks.masks(batch.counts, batch.actions)
            if not self._send(Evaluate(request, rows), batch.features, batch.counts, legal):
                self._requests.postpone(request, now + SEND_AGAIN)
        if taken or self._timer is None:
            self._set_timer()

    def _set_timer(self) -> None:
        """Set one timer to the earliest deadline, or leave an earlier timer as it is: it looks for the next
        deadline when it fires."""

        def on_timer() -> None:
            self._timer = None
            now = self._loop.time()
            if late := self._requests.expire(now):
                # After a lost connection, requests become late one by one.
                log.info("%d requests were not answered and are sent again", late)
            self._flush()

        deadline = self._requests.next_deadline()
        if deadline is None or (self._timer is not None and self._timer.when() <= deadline):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(deadline, on_timer)


@dataclass(slots=True)
class _Request(Generic[T]):
    payload: T
    rows: int
    unanswered: int
    """Bit i is set while row i is unanswered."""
    patience: float = PATIENCE
    deadline: float = 0.0
    """When to send the request again; meaningless while it waits in the send queue."""
    sent: bool = False
    """Whether its rows are counted as in flight."""


class RequestTable(Generic[T]):
    """Requests in order of age, each with an opaque payload that is returned with its answers.

    `credits` are the leaves that the server allows in flight; 0 while there is no session. They may be set at
    any time: leaves in flight stay in flight.
    """

    def __init__(self) -> None:
        self.credits = 0
        self.in_flight = 0
        """Rows of requests sent in this session and not completely answered (all their rows count)."""
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
        # Requests that wait to be sent (again) have the first claim on the credits.
        waiting = sum(self._requests[request].rows for request in self._to_send)
        return max(0, self.credits - self.in_flight - waiting)

    def open(self, payload: T, rows: int) -> int:
        """Add a new request and return its id; `take` returns it for sending."""
        request = self._next
        self._next += 1
        # One bit for each row, all of them set.
        self._requests[request] = _Request(payload, rows, (1 << rows) - 1)
        self._to_send.append(request)
        return request

    def take(self, now: float) -> list[tuple[int, int, T]]:
        """Return `(id, rows, payload)` of the requests to send now, within the credits.

        A request larger than all credits is sent alone (a later session may grant fewer).
        """
        taken = []
        while self._to_send and self.credits:
            entry = self._requests[self._to_send[0]]
            # Do not skip it for a smaller one: the oldest search has waited longest.
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
        """Return the payload, and which of the rows `first .. first + rows` were unanswered until now.

        Returns None if the answer must be ignored: an unknown or finished request, or rows it does not have.
        """
        entry = self._requests.get(request)
        if entry is None or rows <= 0 or first < 0 or first + rows > entry.rows:
            return None
        part = ((1 << rows) - 1) << first
        # Each row counts once, however often it is answered.
        new = entry.unanswered & part
        entry.unanswered &= ~part
        if not entry.unanswered:
            del self._requests[request]
            # An answer may come while the request waits to be sent again, in a later session.
            if entry.sent:
                self.in_flight -= entry.rows
            else:
                self._to_send.remove(request)
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
        # A request that is not in flight waits in the queue already.
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

    def next_deadline(self) -> float | None:
        """Return when `expire` must be called at the latest; None while nothing is in flight."""
        return min((entry.deadline for entry in self._requests.values() if entry.sent), default=None)

    def _unsend(self, requests: list[int]) -> None:
        for request in requests:
            entry = self._requests[request]
            entry.sent = False
            self.in_flight -= entry.rows
        # Put them before the new requests, in their own order: the oldest search has waited longest.
        self._to_send.extendleft(reversed(requests))
