"""The leaves port: EVALUATE in, rings to the evaluators, EVALUATED out.

Leaves of players on other machines wait in a queue in which keys take turns (`FairQueue`), until a slot is
free in the ring of an evaluator. In the ring, each key takes turns like one of azserver's own workers. When
an evaluator ends, its rows go to another one, or wait for one.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

import numpy as np

from azselfplay.batching.producer import Events, Leaves, RingClient, answered_runs
from azselfplay.batching.queue import FairQueue
from azselfplay.batching.ring import SLOT_ROWS, Layout
from azselfplay.games.spec import Game
from azselfplay.search.evaluator import Evaluations
from protocol.errors import Code
from protocol.frames import check_leaves
from protocol.messages import MAX_HEADER, MAX_ROWS, Evaluate, Evaluated, Grant, Message
from protocol.sessions import Session
from protocol.zmtp import Limits
from server.evaluator_pool import EvaluatorPool, NoEvaluators
from server.metrics import Figures
from server.port import PLAYERS, Port, Route
from server.shares import Share, Shares

log = logging.getLogger(__name__)

NO_EVALUATOR = (
    "this run's network is part of the players' own search, so the server evaluates nothing: play with a "
    "version of azselfplay that knows networks of the family `sparse`"
)
EVALUATE_YOURSELF = (
    "this server evaluates nothing (--gpus none): play with an evaluator of your own (azclient --device cpu, "
    "or --device auto where there is a GPU)"
)
COUNT_BYTES = ACTION_BYTES = 2
"""Bytes of one number in the frames `counts` and `actions`."""
OVER_CREDIT_RETRY = 1.0
"""Seconds after which a request beyond the credits may be sent again."""
SLOTS = 250
"""Slots in the front's ring to an evaluator: enough for full batches of requests with few rows. Memory pages
that are never touched cost nothing."""
OWNERS = (1 << 62) - 1
"""Mask for the bits of an owner's number."""
MAX_QUEUED_ROWS = 1 << 21
"""Most leaves that all players together may have in flight, so that memory can hold them (chess: about 1 kB
each)."""


def message_limits(game: Game, history: int) -> Limits:
    """Return how large a message to the leaves port may be: `MAX_ROWS` rows of the game. `MAX_HEADER` bytes
    are added so that a slightly longer message gets an answer; a much longer one is cut off unread."""
    usual = Limits()
    features, actions = 8 * game.feature_words(history), game.mask_bytes or ACTION_BYTES * game.max_legal
    return Limits(
        frame=min(usual.frame, MAX_HEADER + MAX_ROWS * max(features, actions)),
        message=min(usual.message, 3 * MAX_HEADER + MAX_ROWS * (features + COUNT_BYTES + actions)),
        frames=usual.frames,
    )


@dataclass(eq=False, slots=True)
class _Request:
    """One EVALUATE that waits for its answers."""

    session: int
    number: int
    unanswered: int
    """Rows without an answer."""
    is_dropped: bool = False
    """Whether nobody waits for it any more."""


class _Piece(NamedTuple):
    """Rows of a request that fit into a slot, beginning with row `first`."""

    of: _Request
    first: int


class LeafService:
    """Connects sessions and credits with the rings. `port` and `pool` are set once both exist."""

    port: Port
    pool: EvaluatorPool

    def __init__(self, game: Game, history: int, shares: Shares, figures: Figures) -> None:
        self.queue: FairQueue[Leaves] = FairQueue()
        """What waits for a free slot."""
        self.shares = shares
        self.credits = shares.credits
        self.rings: list[RingClient] = []
        self._game = game
        self._history = history
        self._words = game.feature_words(history)
        self._figures = figures
        self._sessions: dict[int, Session] = {}
        """Players by session number."""
        self._requests: dict[int, dict[int, _Request]] = {}
        """Unanswered requests by session and by their own number."""

    def routes(self) -> Mapping[type[Message], Route]:
        return {Evaluate: Route(self._on_evaluate, PLAYERS, frames=3, is_work=True)}

    def open_rings(self, paths: Sequence[Path]) -> None:
        """Dial the evaluators at these sockets. Must be called in the thread of the event loop."""
        layout = Layout.of(self._game, self._history, SLOTS)
        events = Events(self._on_answer, lambda _: self._fill(), self._on_lost, self._fill)
        self.rings = [RingClient([path], layout, "the front", events) for path in paths]
        for ring in self.rings:
            ring.start()

    def close(self) -> None:
        for ring in self.rings:
            ring.close()

    def session_ended(self, session: Session) -> None:
        number = session.number
        for entry in self._requests.pop(number, {}).values():
            entry.is_dropped = True
        self.queue.drop(lambda leaves: leaves.payload.of.is_dropped, [owner_of(session)])
        self.shares.leave(number)
        self._sessions.pop(number, None)

    def _on_evaluate(self, session: Session, message: Evaluate, frames: list[memoryview]) -> None:
        number, rows = session.number, message.rows
        # Without an answer, a client that does not know networks in the search would wait for ever.
        if isinstance(self.pool, NoEvaluators):
            self.port.refuse(session.peer, Code.NO_EVALUATOR, NO_EVALUATOR, message.request)
            return
        if message.request in self._requests[number]:
            # The request was sent again while it is being evaluated; the first one will be answered.
            self.port.charge(session.peer)
            return
        game = self._game
        leaves = check_leaves(
            rows,
            self._words,
            game.actions,
            frames,
            max_legal=game.max_legal,
            scalars=game.scalar_planes,
            mask_bytes=game.mask_bytes,
        )
        # Only after the check of the frames: a malformed request must not hold credits.
        if not self.credits.take(number, rows):
            self._figures.over_credit += 1
            reason = (
                f"{rows} leaves and {self.credits.in_flight(number)} in flight are more than the "
                f"{self.credits.limit(number)} that are granted"
            )
            log.warning("refused a request of %s: %s", session.who, reason)
            self.port.refuse(
                session.peer, Code.OVER_CREDIT, reason, message.request, retry_after=OVER_CREDIT_RETRY
            )
            return
        entry = _Request(number, message.request, rows)
        self._requests[number][message.request] = entry
        # Pieces are as large as the slots that evaluators ask for. Any evaluator may get a piece, so the
        # smallest wish counts.
        most = min((ring.demand.rows for ring in self.rings if ring.demand.rows), default=SLOT_ROWS)
        owner, is_mask = owner_of(session), leaves.actions.dtype == np.uint8
        # Where the actions of each row end.
        ends = np.cumsum(leaves.counts, dtype=np.int64)
        for first in range(0, rows, most):
            end = min(first + most, rows)
            begin, stop = (int(ends[first - 1]) if first else 0), int(ends[end - 1])
            legal = leaves.actions[first:end] if is_mask else leaves.actions[begin:stop]
            piece = leaves.features[first:end], leaves.counts[first:end], legal
            self.queue.append(Leaves(_Piece(entry, first), piece, end - first, stop - begin, is_mask, owner))
        self._fill()

    # ---- Rings ------------------------------------------------------------------------------

    def _fill(self) -> None:
        """Put waiting leaves into free slots, always of the evaluator that has the fewest of our rows."""
        while self.queue.rows:
            ready = [ring for ring in self.rings if ring.room and ring.demand.games]
            if not ready:
                break
            # One at a time: after each, another evaluator may have the fewest rows.
            (leaves,) = self.queue.take(1)
            min(ready, key=attrgetter("sent_rows")).send(leaves)
        for ring in self.rings:
            ring.flush()

    def _on_lost(self, returned: list[Leaves]) -> None:
        """Queue the leaves of an evaluator that ended again, for any evaluator."""
        # Each goes to the front of the queue. Begin with the last, so that the order stays.
        for leaves in reversed(returned):
            if not leaves.payload.of.is_dropped:
                self.queue.append(leaves, first=True)
        self._fill()

    def _on_answer(self, leaves: Leaves, evaluations: Evaluations, refused: int) -> None:
        entry, first = leaves.payload
        if entry.is_dropped:
            return
        if not refused:
            self._answer(entry, first, evaluations)
            return
        for start, some in answered_runs(leaves, evaluations):
            self._answer(entry, first + start, some)
        # An evaluator marks the rows that it gives up with a negative probability of winning.
        row = first + int((evaluations.wdl[:, 0] < 0).argmax())
        reason = f"row {row}: evaluators ended over it, or gave no probabilities, twice"
        self._forget(entry)
        # Its other pieces would only be refused as well.
        self.queue.drop(lambda other: other.payload.of is entry, [leaves.owner])
        self.credits.release(entry.session, entry.unanswered)
        log.warning("refused request %d: %s", entry.number, reason)
        self.port.refuse(self._sessions[entry.session].peer, Code.POISON, reason, entry.number)

    def _answer(self, entry: _Request, first: int, evaluations: Evaluations) -> None:
        """Send the answers to some rows of a request. The arrays are copied, because their slot is used
        again."""
        rows, number = len(evaluations.wdl), entry.session
        entry.unanswered -= rows
        if not entry.unanswered:
            self._forget(entry)
        self.credits.release(number, rows)
        self.shares.answered(number, rows)
        message = Evaluated(entry.number, first, rows, evaluations.version)
        frames = evaluations.priors.tobytes(), evaluations.wdl.tobytes()
        # The answer is not kept: a player sends its unanswered requests again.
        if not self.port.send(self._sessions[number].peer, message, *frames):
            self._figures.undelivered += 1
            log.warning("%s reads no answers: they are dropped", self._sessions[number].who)

    def _forget(self, entry: _Request) -> None:
        entry.is_dropped = True
        self._requests[entry.session].pop(entry.number, None)

    # ---- Shares -----------------------------------------------------------------------------

    def join(self, session: Session) -> Share | None:
        """Return a player's credits and number of games. None: the server can hold no more players."""
        owner = session.owner or session.number
        share = self.shares.join(session.number, self._needed_leaves, owner)
        if share is not None:
            self._sessions[session.number] = session
            self._requests.setdefault(session.number, {})
        return share

    def tick(self, now: float) -> None:
        """Tell players of shares that have changed."""
        for number, share in self.shares.revise(self._needed_leaves, now):
            grant = Grant(share.credits, share.games)
            # The player reads nothing at the moment, and is told at the next revision.
            if not self.port.send(self._sessions[number].peer, grant):
                self.shares.mark_unsent(number)

    @property
    def _needed_leaves(self) -> int:
        """Return enough leaves for full batches: those in the evaluators' pipelines, one more queued and one
        being searched."""
        return (self.pool.pipeline + 2) * self.pool.target_rows


def owner_of(session: Session) -> int:
    """Return the number by which evaluators know whose turn it is. Players with the same key share one; a
    player without a key has its own. Python's hash depends on a secret of this process, so nobody can choose
    another's number."""
    return hash(session.owner or session.number) & OWNERS
