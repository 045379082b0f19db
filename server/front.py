"""The front of azserver: its sockets, sessions and timers, and the services behind them.

Everything that must not be lost is on disk elsewhere. So the front may be killed at any moment, and nothing
that was acknowledged is lost.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from azselfplay.games.spec import Game
from azselfplay.host.aio import raise_file_limit
from azselfplay.host.config import software
from azselfplay.host.exits import Exit, Fatal
from azselfplay.host.hardware import give_back
from azselfplay.link.door import Door
from azselfplay.link.door_connection import DoorLimits
from net.architectures.registry import is_sparse
from protocol.credits import LEAST_GRANT, Credits
from protocol.errors import Code
from protocol.messages import GetStatus, Goodbye, Message, Ping, Status, WeightsInfo, Welcome
from protocol.sessions import MAX_SESSIONS, Session, SessionTable
from server.bulk import BulkService
from server.evaluator_pool import LIMITS, EvaluatorPool, NoEvaluators
from server.evaluator_watch import LOADING, WatchTimes
from server.keys import Allowed
from server.leaves import EVALUATE_YOURSELF, MAX_QUEUED_ROWS, LeafService, message_limits
from server.metrics import ENDS, Figures
from server.port import PLAYERS, Port, Route
from server.shares import Share, Shares
from server.weights import WeightsStore

log = logging.getLogger(__name__)

TICK_SECONDS = 1.0
"""Seconds between two checks of leases and other deadlines, none of which is shorter than 10 s."""
GIVE_BACK_SECONDS = 5.0
"""Seconds between two times that freed memory is given back to the operating system."""
QUIET_SECONDS = 20.0
"""Seconds of silence after which the log names an evaluator, before it is restarted."""
NO_PROGRESS = 60.0
"""Seconds without an answer from any evaluator, while rows wait, after which azserver reports "not ready"."""
SPARE_DESCRIPTORS = 256
"""File descriptors reserved for everything except the connections of the two ports."""
LEAST_CONNECTIONS = 16
"""Connections that each port must have room for. With fewer file descriptors azserver would run, but admit
hardly anybody."""
STRANGERS_PART = 11
"""One of this many connections is reserved for peers without a session, so that whoever has a key can always
show it."""


@dataclass(frozen=True)
class FrontSettings:
    """The parts of the configuration that the front needs."""

    run: str
    game: Game
    history: int
    self_play: Mapping[str, Any]
    leaves: tuple[str, ...]
    """Endpoints to bind; so are the next two."""
    bulk: tuple[str, ...]
    evaluators: str
    rings: tuple[Path, ...] = ()
    """Unix sockets of the evaluators' rings, by index."""
    devices: int = 1
    """Number of evaluators that are expected; 0: players evaluate, and a client's leaves are refused."""
    local_workers: int = 0
    network: str = ""
    """One of the family `sparse` is part of the players' own search (`server.evaluator_pool`)."""
    run_id: bytes = b""
    """Identity of the run, 16 bytes."""
    weights_url: str = ""
    """Where clients fetch weights; "": from here."""
    games_in_flight: int = 0
    """Games that one worker should play at once; 0: as many as its evaluator, or its share of the batches,
    asks for."""
    heartbeat: float = 10.0
    lease: float = 60.0
    watch: WatchTimes = field(default_factory=WatchTimes)
    """Limits after which an evaluator counts as hanging."""
    allowed: Allowed | None = None
    """Keys that may join over TCP; None: no key is needed."""
    limits: DoorLimits = DoorLimits()
    """Limits of each of the two ports."""
    evaluator_limits: DoorLimits = LIMITS

    @property
    def players_evaluate(self) -> bool:
        """Whether this server evaluates nothing."""
        return not self.devices


class Front:
    """The server's main object: make it, then call `run`. `one_up` is set when the first evaluator has loaded
    weights, and `all_up` when all have. Without evaluators, both are set once the weights are checked."""

    def __init__(self, settings: FrontSettings, store: WeightsStore) -> None:
        """Bind all sockets. Raises Fatal(TRY_AGAIN) if a port is in use, Fatal(CONFIG) if this user may
        open too few files."""
        self.settings = settings
        self.store = store
        self.figures = Figures(started=time.monotonic())
        self.stopping = False
        self._trainer_or_weights = asyncio.Event()
        """Set when a session ended on the bulk port, or when weights were taken or refused."""
        self._fatal: asyncio.Queue[Fatal] = asyncio.Queue(maxsize=8)
        # One more than the limit: a session that makes room for a new one is forgotten only after the new one
        # has joined.
        leaves = Credits(MAX_QUEUED_ROWS, minimum=LEAST_GRANT, sessions=MAX_SESSIONS + 1)
        shares = Shares(leaves, settings.local_workers, settings.games_in_flight)
        self.leaf = LeafService(settings.game, settings.history, shares, self.figures)
        self.bulk = BulkService(settings.game.name, store, self.figures)
        self.one_up = asyncio.Event()
        self.all_up = asyncio.Event()
        self.pool: EvaluatorPool
        self._open()

    def _open(self) -> None:
        settings = self.settings
        # Tools such as `azplay status` may ask on either port.
        looking_in: Mapping[type[Message], Route] = {GetStatus: Route(self._on_get_status)}
        counting: Mapping[type[Message], Route] = (
            {Ping: Route(self._on_bulk_ping)} if settings.players_evaluate else {}
        )
        # Session numbers must not be guessable.
        rng = random.SystemRandom()
        files = raise_file_limit(SPARE_DESCRIPTORS + 2 * LEAST_CONNECTIONS)
        # The two ports divide the files that this user may open, so that neither can starve the other.
        share = (files - SPARE_DESCRIPTORS) // 2
        allowed = settings.allowed
        lock = None if allowed is None else (allowed.pair, allowed.owner_of)
        limits = replace(settings.limits, connections=min(settings.limits.connections, share))
        of_leaves = message_limits(settings.game, settings.history)
        # Reserve some connections for peers without a session (see STRANGERS_PART).
        most = min(MAX_SESSIONS, limits.connections - limits.connections // STRANGERS_PART)
        self.leaf.port = Port(
            "leaves",
            Door(settings.leaves, replace(limits, incoming=of_leaves), lock=lock),
            SessionTable(self._welcome_to_leaves, lease=settings.lease, rng=rng, limit=most),
            {**self.leaf.routes(), **looking_in},
            self.figures,
            on_end=self.leaf.session_ended,
            version=self._version,
        )
        self.bulk.port = Port(
            "bulk",
            Door(settings.bulk, limits, lock=lock),
            SessionTable(self._welcome_to_bulk, lease=settings.lease, rng=rng, limit=most),
            {**self.bulk.routes(), **looking_in, **counting},
            self.figures,
            on_end=self._on_bulk_session_ended,
            version=self._version,
        )
        evaluators = Door([settings.evaluators], settings.evaluator_limits)
        pool = evaluators, self.store, self.figures, settings.watch
        if settings.players_evaluate:
            players = self.pool = NoEvaluators(*pool)
            players.expect(settings.game, settings.history, settings.network)
        else:
            self.pool = EvaluatorPool(*pool)
        self.pool.on_up, self.pool.on_taken = self._on_evaluator_up, self._on_weights_taken
        self.pool.on_weights_refused = self._on_weights_refused
        self.leaf.pool = self.bulk.weights.pool = self.pool
        self.bulk.chunks.port = self.bulk.weights.port = self.bulk.port

    async def run(self) -> None:
        """Serve until cancelled. Raises Fatal when no evaluator can take any weights."""
        for part in (self.leaf.port, self.bulk.port, self.pool):
            part.start()
        self.leaf.open_rings(self.settings.rings)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self.bulk.run())
                group.create_task(self._tick())
                group.create_task(self.pool.begin())
                # A callback cannot end this process by raising an error, so it puts the error into this
                # queue.
                raise await self._fatal.get()
        finally:
            self.close()

    def close(self) -> None:
        """Close all sockets."""
        for part in (self.leaf, self.leaf.port, self.bulk.port, self.pool):
            part.close()

    def say_goodbye(self) -> None:
        """Tell all peers that the server is stopping and may come back."""
        self.stopping = True
        for port in (self.leaf.port, self.bulk.port):
            port.say_goodbye(_STOPPING)

    def hanging_evaluators(self) -> list[tuple[int, str]]:
        """Return the evaluators to kill because they have been silent for too long, each with the reason."""
        now = time.monotonic()
        for index, (seconds, watched) in self.pool.watch.silences(now).items():
            if seconds >= QUIET_SECONDS:
                text = "evaluator %d has said nothing for %.0f s%s; after %.0f s it is restarted"
                doing = " while it loads weights" if watched.doing == LOADING else ""
                log.warning(text, index, seconds, doing, watched.limit)
        return self.pool.watch.tick(now)

    def status(self) -> dict[str, Any]:
        """Return the figures of STATUS; docs/protocol.md says what each means."""
        now = time.monotonic()
        relay, current = self.bulk.relay, self.store.current
        leaves, bulk = self.leaf.port.sessions, self.bulk.port.sessions
        # Players that evaluate for themselves have a session on the bulk port only.
        players = bulk if self.settings.players_evaluate else leaves
        waiting, _ = self.figures.rows_of_evaluators
        return {
            **self.figures.as_dict(now),
            "time": round(time.time(), 3),
            "run": self.settings.run,
            "game": self.settings.game.name,
            "target_rows": round(self.pool.mean_target),
            "evaluators": self.pool.working,
            "players_evaluate": self.settings.players_evaluate,
            "queue_rows": waiting + self.leaf.queue.rows,
            "sessions": {
                "workers": bulk.count("worker"),
                "clients": players.count("client"),
                "trainer": int(self.bulk.trainer is not None),
            },
            "keys": dict(leaves.by_key() + bulk.by_key()),
            "weights_version": current.version if current else -1,
            "games_relayed": relay.relayed,
            "games_acked": relay.acked,
            **({} if self.bulk.weights.gate is None else {"gate": self.bulk.weights.gate.figures()}),
        }

    def metrics(self) -> Mapping[str, Any]:
        """Return the figures of STATUS, and some that are only needed as counters."""
        counted = self.figures
        evaluators = range(self.settings.devices)
        by_evaluator: Mapping[Any, int] = dict.fromkeys(evaluators, 0) | counted.evals_by_evaluator
        if self.settings.players_evaluate:
            # There are no evaluators; the metric still counts leaves evaluated.
            by_evaluator = {"players": counted.evals}
        allowed = self.settings.allowed
        return {
            **self.status(),
            "by_evaluator": by_evaluator,
            "batch_sizes": counted.batch_sizes,
            "latency": {"queue": counted.wait_histogram, "device": counted.compute_histogram},
            "sent_rows": counted.rows_of_evaluators[1],
            "devices": self.settings.devices,
            "disconnects": dict.fromkeys(ENDS, 0) | counted.disconnects,
            "cut": {"leaves": self.leaf.port.door.cut, "bulk": self.bulk.port.door.cut},
            "refused": {"leaves": self.leaf.port.door.refused, "bulk": self.bulk.port.door.refused},
            "allowed_keys": None if allowed is None else allowed.readable,
            "silent": {
                index: seconds for index, (seconds, _) in self.pool.watch.silences(time.monotonic()).items()
            },
            "weights_age": time.monotonic() - counted.weights_at,
        }

    def not_ready(self, now: float) -> str:
        """Return why no evaluations are possible now; "" if all is well."""
        if self.stopping:
            return "it is stopping"
        if self.settings.players_evaluate:
            return "" if self.pool.is_ready else "the weights are being checked"
        if not self.pool.working:
            return "no evaluator is up"
        silent = now - self.figures.progress_at
        waiting = sum(self.figures.rows_of_evaluators) + self.leaf.queue.rows
        # Without waiting leaves, silence only means that nobody plays.
        if waiting and silent > NO_PROGRESS:
            return f"{waiting} leaves wait, and no evaluator has answered for {silent:.0f} s"
        return ""

    # ---- sessions ---------------------------------------------------------------------------

    def _welcome_to_leaves(self, session: Session, _now: float) -> Welcome | Goodbye:
        if refusal := self._not_now(session):
            return refusal
        # A watcher asks for figures and needs no share.
        if session.role not in PLAYERS:
            return self._welcome(session)
        if self.settings.players_evaluate and not is_sparse(self.settings.network):
            return Goodbye(Code.NO_EVALUATOR, EVALUATE_YOURSELF)
        share = self.leaf.join(session)
        if share is None:
            return Goodbye(Code.BUSY, "the server has as many players as it can hold", 30.0)
        return self._welcome(session, share)

    def _welcome_to_bulk(self, session: Session, _now: float) -> Welcome | Goodbye:
        if refusal := self._not_now(session):
            return refusal
        if session.role == "trainer" and (refusal := self.bulk.admit_trainer(session)):
            return refusal
        return self._welcome(session)

    def _not_now(self, session: Session) -> Goodbye | None:
        if self.stopping:
            return _STOPPING
        if session.role in PLAYERS and not self.pool.is_ready:
            return Goodbye(Code.BUSY, "the server's evaluators are starting", retry_after=1.0)
        return None

    def _welcome(self, session: Session, share: Share | None = None) -> Welcome:
        settings = self.settings
        return Welcome(
            session=session.number,
            software=software(),
            run=settings.run,
            game=settings.game.name,
            self_play=dict(settings.self_play),
            credits=share.credits if share else 0,
            games_in_flight=share.games if share else settings.games_in_flight,
            heartbeat=settings.heartbeat,
            lease=settings.lease,
            weights=self.store.current,
            network=settings.network,
            trainer_present=self.bulk.trainer is not None,
            gated=self.bulk.weights.gate is not None,
            rings=[str(path) for path in settings.rings] if session.role == "worker" else [],
            run_id=settings.run_id,
            # azserver's own workers run on the machine that has the files, so they need no web server.
            weights_url="" if session.role == "worker" else settings.weights_url,
        )

    def _on_get_status(self, session: Session, _message: GetStatus, _frames: list[memoryview]) -> None:
        # Both ports have this route; the peer is on the one that knows the session.
        port = self.leaf.port if self.leaf.port.sessions.get(session.peer) is session else self.bulk.port
        port.send(session.peer, Status(self.status()))

    def _on_bulk_session_ended(self, session: Session) -> None:
        self.bulk.session_ended(session)
        # The player counts from 0 again in its next session.
        self.figures.own.forget(session.number)
        self._trainer_or_weights.set()

    def _on_bulk_ping(self, session: Session, ping: Ping, _: list[memoryview]) -> None:
        if session.role in PLAYERS:
            now, own = time.monotonic(), self.figures.own
            self.figures.evals += own.report(session.number, session.joined_at, ping.evaluations, now)

    async def trainer_left(self) -> None:
        """Wait until there is no trainer and the weights that it published last are in use."""
        while self.bulk.trainer is not None or self.pool.desired != self.store.current:
            # Nothing awaits between the test above and the wait below, so clearing the event here misses no
            # change.
            self._trainer_or_weights.clear()
            await self._trainer_or_weights.wait()

    def _version(self) -> int:
        return self.store.current.version if self.store.current else 0

    # ---- evaluators and weights -------------------------------------------------------------

    def _on_evaluator_up(self) -> None:
        self.one_up.set()
        if self.pool.working >= self.settings.devices:
            self.all_up.set()

    def _on_weights_taken(self, info: WeightsInfo) -> None:
        if self.settings.players_evaluate:  # no evaluator reports that it is up
            self.one_up.set()
            self.all_up.set()
        # Before players are told: whoever asks for the new weights must find them.
        self.store.adopt(info)
        self.figures.weights_at = time.monotonic()
        log.info("weights %d (step %d) are in use", info.version, info.step)
        self.bulk.announce_weights()
        self._trainer_or_weights.set()

    def _on_weights_refused(self, info: WeightsInfo, reason: str) -> None:
        """Discard newer weights that were refused. If even the current ones cannot be used, nobody can play,
        and the process ends."""
        self._trainer_or_weights.set()
        if self.bulk.weights.gate is not None:
            self.bulk.weights.gate.refused(info)
        if info != self.store.current:
            self.store.forget(info)
        # If another evaluator works with these weights, the fault lies with the one that refused them.
        elif not self.pool.working and self._fatal.empty():
            what = f"the run's current weights cannot be used: {reason}"
            to_do = (
                "if the rules or the board of the game have changed, begin a new run (--run NAME); else "
                f"delete {self.store.about} to begin with other weights (--weights, or untrained ones)"
            )
            self._fatal.put_nowait(Fatal(f"{what}; {to_do}", Exit.BAD_DATA))

    # ---- timers -----------------------------------------------------------------------------

    async def _tick(self) -> None:
        give_back_at = 0.0

        def refresh_keys(_now: float) -> None:
            if self.settings.allowed is not None and self.settings.allowed.refresh():
                self.leaf.port.revoke()
                self.bulk.port.revoke()

        while True:
            await asyncio.sleep(TICK_SECONDS)
            now = time.monotonic()
            if now >= give_back_at:
                give_back_at = now + GIVE_BACK_SECONDS
                give_back()
            leaf, bulk = self.leaf, self.bulk
            for due in (
                refresh_keys,
                leaf.port.expire,
                leaf.tick,
                bulk.port.expire,
                bulk.tick,
                self.store.save,
            ):
                # If one of them fails, the others must still run.
                with self.figures.faults.survived("timers"):
                    due(now)


_STOPPING = Goodbye(Code.STOPPING, "the server is stopping", retry_after=5.0)
