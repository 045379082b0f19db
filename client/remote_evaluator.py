"""Evaluations by the server: submitted leaves travel in messages of at most `LEAVES_PER_MESSAGE`.

Leaves beyond the server's credits wait, and so do the searches that submitted them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from client.requests import PATIENCE, RequestTable
from games.packed import LegalMasks
from protocol.errors import Code
from protocol.frames import check_evaluations
from protocol.messages import Evaluate, Evaluated, Refused, Welcome
from runtime.logs import Repeated
from search.evaluator import Evaluations, LeafBatch, Part, Reply, WaitingLeaves, deliver, fail

LEAVES_PER_MESSAGE = 128
"""Leaves in one EVALUATE: enough to make the cost of a message small, few enough to fill batches evenly."""
SEND_AGAIN = 0.2
"""Seconds until a message that the socket did not accept is sent again."""
RETRY_AFTER = 1.0
"""Seconds until a request refused by a full server is sent again, when the server names no time."""
PASSING = frozenset({Code.BUSY.value, Code.OVER_CREDIT.value, Code.NO_WEIGHTS.value})
"""Refusals that are not caused by the request itself."""

Send = Callable[..., bool]
"""`send(message, *frames)`, False if the message did not go out (`runtime.connection.Connection.send`)."""

log = logging.getLogger(__name__)


class LeafRefused(Exception):
    """The server will not evaluate this leaf; the game it belongs to is abandoned."""


@dataclass(slots=True)
class _Asked:
    """The payload of one request: the frames that were sent, and the search that waits for each row."""

    batch: LeafBatch
    parts: list[Part]


class RemoteEvaluator:
    """`search.evaluator.Evaluator` over a connection. Its methods may only be called in the event loop's
    thread.

    The owner connects it: `joined` and `lost` are called by the connection, `on_evaluated` and `on_refused`
    for these two messages. `close` ends its timer.
    """

    def __init__(
        self,
        send: Send,
        *,
        loop: asyncio.AbstractEventLoop | None = None,
        patience: float = PATIENCE,
        masks: LegalMasks | None = None,
    ) -> None:
        """`masks`: encodes the legal actions, where these are not sent as a list."""
        self.version = 0
        """Weights version of the newest answer."""
        self.leaves = 0
        """Leaves answered since the start."""
        self._send = send
        self._loop = loop or asyncio.get_running_loop()
        self._waiting = WaitingLeaves()
        """Leaves not yet in a message; bounded by the number of searches."""
        self._requests: RequestTable[_Asked] = RequestTable(patience)
        self._masks = masks
        self._repeated = Repeated(log)
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
        self._requests.granted(credits)
        self._flush()

    def lost(self) -> None:
        self._requests.lost()

    def close(self) -> None:
        self._requests.lost()
        if self._timer is not None:
            self._timer.cancel()

    def on_evaluated(self, message: Evaluated, frames: Sequence[memoryview]) -> None:
        """Pass a (partial) answer to the searches that wait for it. Raises BadMessage and then changes
        nothing, so the rows are requested again."""
        first, end = message.first, message.first + message.rows
        asked = self._requests.payload(message.request)
        if asked is None or end > asked.batch.rows:
            return
        counts, total = asked.batch.counts, len(asked.batch.actions)
        if message.rows != len(counts):
            counts = counts[first:end]
            total = int(counts.sum(dtype=np.int64))
        priors, wdl = check_evaluations(message.rows, total, frames)
        answered = self._requests.answer(message.request, first, message.rows)
        if answered is None:
            return
        self.version = message.version
        if self._masks is not None:
            begin = int(asked.batch.counts[:first].sum(dtype=np.int64))
            priors = self._masks.as_listed(counts, asked.batch.actions[begin : begin + total], priors)
        deliver(asked.parts, asked.batch.counts, first, Evaluations(priors, wdl, message.version))
        self.leaves += len(answered[1])
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
        asked, rows = given_up
        text = f"the server refuses {len(rows)} leaves: {message.reason} ({message.code})"
        self._repeated.warning(message.code, text, self._loop.time())
        fail(asked.parts, rows, LeafRefused(message.reason))
        self._flush()

    def _flush(self) -> None:
        """Put waiting leaves into requests and send what the credits allow."""
        while self._waiting and (room := self._requests.room):
            batch, parts = self._waiting.take(min(LEAVES_PER_MESSAGE, room))
            self._requests.open(_Asked(batch, parts), batch.rows)
        self._send_taken()

    def _send_taken(self) -> None:
        now = self._loop.time()
        postponed = False
        for request, rows, asked in self._requests.take(now):
            batch = asked.batch
            legal = batch.actions if self._masks is None else self._masks.masks(batch.counts, batch.actions)
            if not self._send(Evaluate(request, rows), batch.features, batch.counts, legal):
                self._requests.postpone(request, now + SEND_AGAIN)
                postponed = True
        if postponed or self._timer is None:
            self._set_timer()

    def _set_timer(self) -> None:
        """Set one timer to the earliest deadline. Answers do not move it; it checks again when it fires."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        deadline = self._requests.next_deadline()
        if deadline is not None:
            self._timer = self._loop.call_at(deadline, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        late = self._requests.expire(self._loop.time())
        if late:
            log.info("%d requests were not answered and are sent again", late)
        self._flush()
