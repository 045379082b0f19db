"""The leaves port: EVALUATE in, batches to the evaluators, EVALUATED out. Carries out the queue's
instructions."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Hashable, Mapping, Sequence

from azselfplay.games.spec import Game
from azselfplay.host.logs import Repeated
from protocol.errors import Code
from protocol.frames import are_probabilities, check_leaves, read_evaluations, wrong_rows
from protocol.messages import (
    MAX_HEADER,
    MAX_ROWS,
    BadMessage,
    BatchDone,
    Evaluate,
    Evaluated,
    Grant,
    Message,
)
from protocol.sessions import Session
from protocol.zmtp import Limits
from server.evaluators import Device, EvaluatorPool, NoEvaluators
from server.leaf_queue import LeafQueue
from server.metrics import Figures
from server.pieces import ACTION_BYTES, COUNT_BYTES, Answer, Instruction, Refuse, SendBatch, gather
from server.port import PLAYERS, Port, Route, peer_of
from server.shares import Share, Shares

log = logging.getLogger(__name__)

NO_EVALUATOR = (
    "this run's network is part of the players' own search, so the server evaluates nothing: play with a "
    "version of azselfplay that knows networks of the family `sparse`"
)
PRIOR_BYTES, WDL_BYTES = 2, 12
"""Bytes in an answer: of one legal action's prior, and of one row's wdl."""
OVER_CREDIT_RETRY = 1.0
"""Seconds after which a request beyond the credits may be sent again."""


def message_limits(game: Game, history: int) -> Limits:
    """Return how large a message to the leaves port may be: `MAX_ROWS` rows of the game. `MAX_HEADER` more
    bytes let a message that is slightly too long get an answer; one far beyond is cut off unread."""
    usual = Limits()
    features, actions = 8 * game.feature_words(history), game.mask_bytes or ACTION_BYTES * game.max_legal
    return Limits(
        frame=min(usual.frame, MAX_HEADER + MAX_ROWS * max(features, actions)),
        message=min(usual.message, 3 * MAX_HEADER + MAX_ROWS * (features + COUNT_BYTES + actions)),
        frames=usual.frames,
    )


class LeafService:
    """Connects sessions, credits, queue and evaluators. `port` and `pool` are set once both exist."""

    port: Port
    pool: EvaluatorPool

    def __init__(
        self,
        game: Game,
        history: int,
        shares: Shares,
        figures: Figures,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.queue = LeafQueue(mask_bytes=game.mask_bytes, owner_of=self._owner_of, is_local=self._is_local)
        self.shares = shares
        self.credits = shares.credits
        self.version = 0
        """Weights version of the newest answer."""
        self._game = game
        self._words = game.feature_words(history)
        self._figures = figures
        self._clock = clock
        self._repeated = Repeated(log)
        self._sessions: dict[int, Session] = {}
        """Players by session number."""

    def routes(self) -> Mapping[type[Message], Route]:
        return {Evaluate: Route(self._on_evaluate, PLAYERS, frames=3, is_work=True)}

    def session_ended(self, session: Session) -> None:
        self.queue.cancel(session.number)
        self.shares.leave(session.number)
        self._sessions.pop(session.number, None)

    def _on_evaluate(self, session: Session, message: Evaluate, frames: list[memoryview]) -> None:
        number, rows = session.number, message.rows
        if isinstance(self.pool, NoEvaluators):
            self.port.refuse(peer_of(session), Code.NO_EVALUATOR, NO_EVALUATOR, message.request)
            return
        if self.queue.knows(number, message.request):
            self.port.charge(peer_of(session))
            return
        game = self._game
        check_leaves(
            rows,
            self._words,
            game.actions,
            frames,
            max_legal=game.max_legal,
            scalars=game.scalar_planes,
            mask_bytes=game.mask_bytes,
        )
        if not self.credits.take(number, rows):
            self._figures.over_credit += 1
            reason = (
                f"{rows} leaves and {self.credits.in_flight(number)} in flight are more than the "
                f"{self.credits.limit(number)} that are granted"
            )
            self._repeated.warning(
                "over credit", f"refused a request of {session.who}: {reason}", self._clock()
            )
            self.port.refuse(
                peer_of(session), Code.OVER_CREDIT, reason, message.request, retry_after=OVER_CREDIT_RETRY
            )
            return
        self._carry_out(self.queue.request(number, message.request, frames, self._clock()))

    # ---- shares -----------------------------------------------------------------------------

    def join(self, session: Session) -> Share | None:
        """Return a player's credits and number of games. None: the server can hold no more players."""
        owner = session.owner or session.number
        share = self.shares.join(session.number, self._needed_leaves, owner)
        if share is not None:
            self._sessions[session.number] = session
        return share

    def _owner_of(self, number: Hashable) -> Hashable:
        """Return the key of a player; a player without one is its own owner."""
        session = self._sessions.get(number) if isinstance(number, int) else None
        return number if session is None else session.owner or number

    def _is_local(self, owner: Hashable) -> bool:
        session = self._sessions.get(owner) if isinstance(owner, int) else None
        return session is not None and session.role == "worker"

    @property
    def games_of_the_next(self) -> int:
        """Return how many games another player would be told to play."""
        return self.shares.games(self._needed_leaves, len(self.shares) + 1)

    def tick(self, now: float) -> None:
        """Tell players of shares that have changed."""
        for number, share in self.shares.revise(self._needed_leaves, now):
            grant = Grant(share.credits, share.games)
            if not self.port.send(peer_of(self._sessions[number]), grant):
                self.shares.untold(number)

    @property
    def _needed_leaves(self) -> int:
        """Return enough leaves for full batches: those on the devices, one more queued and one being
        searched."""
        return (self.pool.pipeline + 2) * self.pool.target_rows

    # ---- evaluators -------------------------------------------------------------------------

    def evaluator_up(self, device: Device) -> None:
        pipeline = device.ready.pipeline
        self._carry_out(self.queue.evaluator_ready(device.peer, _rows(device), pipeline, self._clock()))

    def evaluator_resized(self, device: Device) -> None:
        self._carry_out(self.queue.evaluator_resized(device.peer, _rows(device), self._clock()))

    def evaluator_died(self, peer: bytes) -> None:
        self._carry_out(self.queue.evaluator_died(peer, self._clock()))

    def batch_done(self, peer: bytes, done: BatchDone, frames: list[memoryview]) -> None:
        """Handle a finished batch. Rows whose answer is not an evaluation are tried once more, the others
        answered."""
        now = self._clock()
        sent = self.queue.sent(peer, done.batch)
        if sent is None:
            self.queue.batch_done(peer, done.batch, now)  # counted as late there
            return
        rows = sent.rows
        try:
            answers = read_evaluations(rows, sent.actions, frames)
        except BadMessage as error:
            self._figures.bad_batches += 1
            log.warning("an evaluator gave an invalid answer to a batch of %d rows: %s", rows, error)
            self._carry_out(self.queue.batch_failed(peer, done.batch, now))
            return
        wrong = None if are_probabilities(answers) else wrong_rows(answers, sent.counts())
        if wrong is not None:
            self._figures.bad_batches += 1
            text = (
                f"an evaluator answered {wrong.sum()} of {rows} rows with values that are not probabilities"
            )
            self._repeated.warning("wrong rows", text, now)
        self.version = done.version
        self._figures.batch_answered(rows, done.busy, now, self.pool.index_of(peer) or 0)
        self._carry_out(self.queue.batch_done(peer, done.batch, now, wrong), frames)

    # ---- instructions -----------------------------------------------------------------------

    def _carry_out(self, instructions: list[Instruction], answers: Sequence[memoryview] = ()) -> None:
        """`answers`: the two frames of BATCH_DONE, of which an Answer is a part."""
        for instruction in instructions:
            match instruction:
                case Answer() as answer:
                    self._answer(answer, answers)
                case SendBatch() as batch:
                    self._figures.batch_sent(batch.rows, batch.waited, self._clock())
                    frames = gather(batch.pieces)
                    if not self.pool.send_batch(batch_peer(batch), batch.batch, batch.rows, frames):
                        log.warning("an evaluator is gone: another one evaluates its rows")
                        instructions += self.queue.evaluator_died(batch.evaluator, self._clock())
                case Refuse() as refuse:
                    self._refuse(refuse)

    def _answer(self, answer: Answer, answers: Sequence[memoryview]) -> None:
        number = answer.session
        assert isinstance(number, int)
        self.credits.release(number, answer.rows)
        self.shares.answered(number, answer.rows)
        message = Evaluated(answer.request, answer.first, answer.rows, self.version)
        priors = answers[0][PRIOR_BYTES * answer.actions_at : PRIOR_BYTES * answer.actions_end]
        wdl = answers[1][WDL_BYTES * answer.at : WDL_BYTES * (answer.at + answer.rows)]
        if not self.port.send(peer_of(self._sessions[number]), message, priors, wdl):
            self._figures.undelivered += 1
            who = self._sessions[number].who
            self._repeated.warning("undelivered", f"{who} reads no answers: they are dropped", self._clock())

    def _refuse(self, refuse: Refuse) -> None:
        number = refuse.session
        assert isinstance(number, int)
        self.credits.release(number, refuse.rows)
        peer = peer_of(self._sessions[number])
        text = f"refused request {refuse.request}: {refuse.reason}"
        self._repeated.warning(refuse.code, text, self._clock())
        self.port.refuse(peer, refuse.code, refuse.reason, refuse.request, refuse.retry_after)


def batch_peer(batch: SendBatch) -> bytes:
    """Return the peer of the batch's evaluator. The queue knows evaluators by the number of their
    connection."""
    assert isinstance(batch.evaluator, bytes)
    return batch.evaluator


def _rows(device: Device) -> int:
    """Return how many rows a batch for this device has."""
    return min(device.ready.target_rows, device.ready.max_rows)
