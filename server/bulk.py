"""The bulk port: games to the trainer and acknowledgements back; weights from the trainer and to clients.

`BulkService` connects the relay of games, the trainer's session and the weights.

The front keeps no games. `GameRelay`, a pure object, knows which peer waits for which acknowledgement. A game
that cannot be passed on now is answered `retry` and stays in its player's spool; `Turns` says when it may
come again. The trainer holds at most `BYTES_OF_ALL` of games that it has not acknowledged. A session may have
`SESSION_BYTES` of them and a key `BYTES_OF_KEY`, so neither fills the window alone. Windows are counted in
bytes because they bound memory. They leave time for slow acknowledgements, for example where games are also
copied to another machine: if answers take 1.5 s, 1,360 games a second (the pace of AlphaZero) mean 2,040
unanswered games.

`WeightsIn` pulls new weights from the trainer exactly as players pull them from the server:

    WEIGHTS_INFO: what the trainer has -> GET_CHUNK, CHUNK ... -> hash right, file durable and checked
          -> WEIGHTS_INFO: the newest that the server has, or REFUSED

The server refuses bad weights, and pulls newer ones whatever became of earlier ones. It answers any other
announcement with the newest weights that it has. The trainer repeats an announcement until it is answered,
and after every lost connection. So the server need not remember anything: if it was killed during a pull, it
has the whole file or pulls it again.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from msgspec import structs

from azselfplay.link.weights_downloader import WeightsDownloader
from azselfplay.link.weights_files import LARGEST
from protocol.credits import BYTES_OF_ALL, BYTES_OF_KEY, SESSION_BYTES, counted_bytes
from protocol.errors import Code
from protocol.messages import (
    MAX_RECORD,
    Chunk,
    GameAck,
    GetChunk,
    GetWeights,
    Goodbye,
    Message,
    PutGame,
    Refused,
    RelayAck,
    RelayGame,
    TrainerStatus,
    WeightsInfo,
)
from protocol.sessions import Session
from server.evaluator_pool import EvaluatorPool
from server.gate import Gatekeeper
from server.metrics import Figures
from server.port import FAULT, PLAYERS, TRAINER, Port, Route
from server.weights import ChunkService, WeightsStore

log = logging.getLogger(__name__)

RETRY_NO_TRAINER = 5.0
"""Seconds after which a client offers a game again when there was no trainer."""
RETRY_BUSY = 1.0
"""Seconds after which a client offers a game again when the trainer's window was full."""
RELAY_AGAIN = 20.0
"""Seconds after which a game offered again is sent to the trainer again (its uid makes that harmless)."""
GIVE_UP = 120.0
"""Seconds after which an unanswered game loses its place in the window."""
LEAST_PACE = 10.0
"""Peers a second that may send again while the trainer answers nothing."""
LONGEST_RETRY = 60.0
"""Longest wait in seconds of a game that was sent back."""

SOURCES = {"worker": "workers", "client": "clients"}
"""The trainer's name for the kind of player, by the session's role."""

SECRET_BYTES = 16
"""Shortest secret, in bytes, by which a trainer is recognised."""
TRAINER_RETRY = 5.0
"""Seconds after which a trainer that waits for another one to end asks again."""


class BulkService:
    """Connects relay, weights and the trainer's session. `port` is set once it exists."""

    port: Port

    def __init__(self, game: str, store: WeightsStore, figures: Figures) -> None:
        self.relay = GameRelay()
        self._turns = Turns(time.monotonic())
        self.chunks = ChunkService(store)
        self.trainer: Session | None = None
        self.weights = WeightsIn(
            *(game, store, figures),
            send=lambda message: self.trainer is not None and self.port.send(self.trainer.peer, message),
        )
        self._store = store
        self._figures = figures
        self._not_announced: dict[bytes, None] = {}
        """Peers of players that have not been told which weights are current."""

    def routes(self) -> Mapping[type[Message], Route]:
        return {
            PutGame: Route(self._on_put_game, PLAYERS, frames=1, is_work=True),
            RelayAck: Route(self._on_relay_ack, TRAINER, is_work=True),
            WeightsInfo: Route(self.weights.on_info, TRAINER),
            Chunk: Route(self.weights.on_chunk, TRAINER, frames=1, is_work=True),
            Refused: Route(self.weights.on_refused, TRAINER),
            TrainerStatus: Route(self._on_trainer_status, TRAINER),
            GetWeights: Route(self.chunks.on_get_weights),
            GetChunk: Route(self.chunks.on_get_chunk, is_work=True),
        }

    def announce_weights(self) -> None:
        """Tell all players and the trainer that the current weights changed. The trainer may have gone back
        to an older checkpoint, and must not take games played with these weights for forged. A peer that
        cannot be reached now is told at a later `tick`."""
        told = {*PLAYERS, *TRAINER}
        players = (session for session in self.port.sessions.all() if session.role in told)
        # A dict keeps the order of the sessions, so that a simulation is repeatable.
        self._not_announced = dict.fromkeys(session.peer for session in players)
        self._announce()

    def _announce(self) -> None:
        info = self._store.current
        if info is not None:
            self._not_announced = dict.fromkeys(
                peer for peer in self._not_announced if not self.port.send(peer, info)
            )

    async def run(self) -> None:
        """Serve chunks and pull new weights, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.chunks.run())
            group.create_task(self.weights.downloader.run())

    # ---- the trainer's session --------------------------------------------------------------

    def admit_trainer(self, session: Session) -> Goodbye | None:
        """Admit one trainer per server. Another trainer must wait until the first is gone. The first itself,
        recognised by its secret, may continue at once on a new connection."""
        present = self.trainer
        # The same HELLO came twice.
        if present is not None and present.number == session.number:
            return None
        if present is not None and present.peer != session.peer:
            # The same trainer on a new connection shows the secret of the old one. A trainer whose connection
            # has ended, or does not answer the door's PINGs, has no session any more.
            secret = present.hello.secret
            is_same = hmac.compare_digest(secret, session.hello.secret)
            if len(secret) < SECRET_BYTES or not is_same:
                return _ANOTHER_TRAINER
        self.trainer = session
        # The same trainer needs this, too: what was on its way when its connection was cut may be lost.
        self.weights.downloader.lost()
        self._carry_out(self.relay.trainer_joined())
        if present is not None and present.peer != session.peer:
            self.port.end(present, _ANOTHER_TRAINER)
        return None

    def session_ended(self, session: Session) -> None:
        self._not_announced.pop(session.peer, None)
        self.chunks.session_ended(session)
        if self.trainer is not None and self.trainer.number == session.number:
            self.trainer = None
            # The chunks that came are kept: the next trainer may announce the same weights.
            self.weights.downloader.lost()
            self._carry_out(self.relay.trainer_left())

    def tick(self, now: float) -> None:
        self._announce()
        self._turns.tick(self.relay.acked, now)
        self._carry_out(self.relay.expire(now))

    # ---- games ------------------------------------------------------------------------------

    def _on_put_game(self, session: Session, message: PutGame, frames: list[memoryview]) -> None:
        peer = session.peer
        if len(frames[0]) > MAX_RECORD:
            self.port.charge(peer)
            self._figures.protocol_errors += 1
            reason = f"{Code.TOO_LONG}: a record of {len(frames[0])} bytes, expected at most {MAX_RECORD}"
            self.port.send(peer, GameAck(message.uid, "rejected", reason))
            return
        now, size = time.monotonic(), len(frames[0])
        instructions = self.relay.put(
            peer, session.role, message.uid, message.sha256, now, size, session.owner
        )
        # A game that goes on to the trainer is work; one that is sent back or comes twice is charged.
        if not any(isinstance(one, RelayGame) for one in instructions):
            self.port.charge(peer)
        self._carry_out(instructions, frames[0])

    def _on_relay_ack(self, session: Session, message: RelayAck, _: list[memoryview]) -> None:
        # A trainer that was replaced may still send answers, but its games were given up.
        answers = self.relay.trainer_acked(message.acks) if self._is_trainer(session) else []
        if not answers:
            self.port.charge(session.peer)
        self._carry_out(answers)

    def _on_trainer_status(self, session: Session, message: TrainerStatus, _: list[memoryview]) -> None:
        if self._is_trainer(session):
            self._figures.trainer = message.figures

    def _is_trainer(self, session: Session) -> bool:
        return self.trainer is not None and self.trainer.number == session.number

    def _carry_out(self, instructions: list[Instruction], record: memoryview | None = None) -> None:
        for instruction in instructions:
            match instruction:
                case RelayGame(peer, uid):
                    assert self.trainer is not None
                    assert record is not None
                    if not self.port.send(self.trainer.peer, instruction, record):
                        self.port.charge(peer)
                        self._carry_out(self.relay.undeliverable(peer, uid))
                case Acknowledge(peer, ack, wasted):
                    if wasted:  # checking it and keeping it cost the trainer as much as a good game
                        self.port.door.charge(peer, wasted)
                    if ack.status == "retry":
                        wait = self._turns.wait(peer, time.monotonic(), ack.retry_after)
                        ack = structs.replace(ack, retry_after=wait)
                    self.port.send(peer, ack)


_ANOTHER_TRAINER = Goodbye(
    Code.TRAINER_ALREADY_PRESENT,
    "another trainer is connected to this server; this one may wait, and takes over when that one has ended, "
    "if it sees its run folder or archive (one whose machine has vanished is forgotten within a minute)",
    TRAINER_RETRY,
)


# ---- Games ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Acknowledge:
    """Send this to the peer on the bulk port, if it is still there."""

    peer: bytes
    ack: GameAck
    wasted: int = 0
    """Bytes of the game if the trainer checked it without storing it as a new one, else 0."""


Instruction = RelayGame | Acknowledge
"""A RELAY_GAME goes to the trainer, with the record's bytes as they came."""


@dataclass
class _InFlight:
    """A game that was passed on."""

    since: float
    sha256: bytes
    size: int
    """Bytes of the record."""
    owner: str


class GameRelay:
    """Knows which peer waits for which game's acknowledgement."""

    def __init__(self, window: int = BYTES_OF_ALL) -> None:
        self.relayed = 0
        """Games passed on to a trainer."""
        self.acked = 0
        """Games to which a trainer gave a final answer."""
        self.trainer_present = False
        self._window = window
        self._in_flight: dict[tuple[bytes, bytes], _InFlight] = {}
        """Games passed on, by peer and uid."""
        self._bytes: Counter[bytes | str] = Counter()
        """Counted bytes of these games, by peer and by the name of a key."""
        self._all_bytes = 0
        """Counted bytes of all these games together."""

    def __len__(self) -> int:
        return len(self._in_flight)

    def put(
        self, peer: bytes, role: str, uid: bytes, sha256: bytes, now: float, size: int = 0, owner: str = ""
    ) -> list[Instruction]:
        """Handle a game of `size` bytes from `peer`. The trainer is told the `owner`, the name of the
        session's key; "" where no keys are used."""
        if not self.trainer_present:
            return [_retry(peer, uid, Code.NO_TRAINER, RETRY_NO_TRAINER)]
        game = self._in_flight.get((peer, uid))
        # The trainer's answers name only the uid: its answer to the first game would be taken for one to the
        # second.
        if game is not None and (game.sha256, game.size) != (sha256, size):
            return [_retry(peer, uid, _OTHER_BYTES, RETRY_BUSY)]
        # The trainer has the game already, and its answer will go to this peer.
        if game is not None and now - game.since < RELAY_AGAIN:
            return []
        if game is None:
            counted, held = counted_bytes(size), self._bytes[peer]
            # `held and`: one game always fits, however large.
            if held and held + counted > SESSION_BYTES:
                reason = f"{Code.BUSY}: {held} bytes of this session's games are unanswered already"
                return [_retry(peer, uid, reason, RETRY_BUSY)]
            full = self._all_bytes + counted > self._window
            if full or (owner and self._bytes[owner] + counted > BYTES_OF_KEY):
                return [_retry(peer, uid, Code.TRAINER_BUSY, RETRY_BUSY)]
            self._count(peer, owner, counted)
            self.relayed += 1
            game = self._in_flight[peer, uid] = _InFlight(now, sha256, size, owner)
        game.since = now
        return [RelayGame(peer, uid, sha256, SOURCES[role], owner)]

    def undeliverable(self, peer: bytes, uid: bytes) -> list[Instruction]:
        """Handle a game that could not be sent, because the trainer is gone or its socket is full."""
        if not self._take_back(peer, uid):
            return []
        # `put` has counted it as relayed.
        self.relayed -= 1
        return [_retry(peer, uid, Code.TRAINER_BUSY, RETRY_BUSY)]

    def trainer_acked(self, acks: Iterable[tuple[bytes, GameAck]]) -> list[Instruction]:
        """Handle the trainer's answers. Answers to games that nobody waits for any more are dropped."""
        out: list[Instruction] = []
        for peer, ack in acks:
            if game := self._take_back(peer, ack.uid):
                self.acked += ack.status != "retry"
                out.append(Acknowledge(peer, ack, 0 if ack.status in ("stored", "retry") else game.size))
        return out

    def trainer_joined(self) -> list[Instruction]:
        """Handle a (new) trainer: games that the previous one had not acknowledged must be offered again."""
        lost = self.trainer_left()
        self.trainer_present = True
        return lost

    def trainer_left(self) -> list[Instruction]:
        """Handle the loss of the trainer: everything it had not acknowledged must be offered again."""
        self.trainer_present = False
        # The next trainer knows nothing of them.
        waiting, self._in_flight = self._in_flight, {}
        self._bytes.clear()
        self._all_bytes = 0
        return [_retry(peer, uid, Code.NO_TRAINER, RETRY_NO_TRAINER) for peer, uid in waiting]

    def expire(self, now: float) -> list[Instruction]:
        """Reclaim the places of games that the trainer never answered."""
        # Unary plus drops the zeros, so that peers that are gone are forgotten.
        self._bytes = +self._bytes
        late = [key for key, game in self._in_flight.items() if now - game.since > GIVE_UP]
        for peer, uid in late:
            self._take_back(peer, uid)
        return [_retry(peer, uid, Code.TRAINER_BUSY, RETRY_BUSY) for peer, uid in late]

    # ---- inside -----------------------------------------------------------------------------

    def _take_back(self, peer: bytes, uid: bytes) -> _InFlight | None:
        """Free the place of a game. Returns None if it had none."""
        game = self._in_flight.pop((peer, uid), None)
        if game is not None:
            self._count(peer, game.owner, -counted_bytes(game.size))
        return game

    def _count(self, peer: bytes, owner: str, counted: int) -> None:
        self._bytes[peer] += counted
        self._bytes[owner] += counted
        self._all_bytes += counted


class Turns:
    """Decides when games that were sent back may come again: one peer after another, somewhat faster than the
    trainer has answered of late. So the trainer is offered more as soon as it takes more.

    If all had to wait one second, thousands of players would send so much in vain that hardly anything else
    would get through.
    """

    def __init__(self, now: float) -> None:
        self._pace = LEAST_PACE
        """Turns a second."""
        self._last = now
        """When the latest turn is."""
        self._ticked_at = now
        self._answered = 0
        self._due: dict[bytes, float] = {}
        """When each peer's turn is. A peer that sends more games before its turn gets no further turn, so it
        does not delay the others."""

    def tick(self, answered: int, now: float) -> None:
        """Note how many games the trainer has answered in all. To be called every second or so."""
        self._due = {peer: at for peer, at in self._due.items() if at > now}
        if (passed := now - self._ticked_at) > 0:
            # An average over about ten seconds, since an archive answers many games at once.
            share = 1 - math.exp(-passed / 10)
            offered = 1.5 * (answered - self._answered) / passed
            self._pace = max(LEAST_PACE, self._pace + share * (offered - self._pace))
            self._ticked_at, self._answered = now, answered

    def wait(self, peer: bytes, now: float, least: float) -> float:
        """Return the seconds, at least `least`, after which this peer may send again."""
        if self._due.get(peer, now) <= now:
            self._last = max(self._last, now) + 1 / self._pace
            if self._last > now + LONGEST_RETRY:
                self._last = now  # start another round, between the turns already given
            self._due[peer] = self._last
        return max(least, self._due[peer] - now)


_OTHER_BYTES = f"{Code.BUSY}: the trainer has a game with this uid and other bytes, and has not answered yet"


def _retry(peer: bytes, uid: bytes, reason: str, seconds: float) -> Acknowledge:
    return Acknowledge(peer, GameAck(uid, "retry", reason, seconds))


# ---- Weights -------------------------------------------------------------------------------------


class WeightsIn:
    """Pulls new weights, stores them and passes them on. `port` and `pool` are set once they exist."""

    port: Port
    pool: EvaluatorPool

    def __init__(
        self, game: str, store: WeightsStore, figures: Figures, send: Callable[[Message], bool]
    ) -> None:
        """`send` sends to the trainer; it returns False if there is none, or if the trainer does not read."""
        self.gate: Gatekeeper | None = None
        """Tests new weights before they are used, with `gate.mode = alphago_zero`."""
        self._game = game
        self._store = store
        self._figures = figures
        self._send = send
        self.downloader = WeightsDownloader(self._use, send, on_end=self._answer, advice="")

    @property
    def last_published(self) -> WeightsInfo | None:
        """Return the weights that were published last."""
        return self.pool.desired if self.gate is None else self.gate.state.newest

    def on_info(self, session: Session, info: WeightsInfo, _: list[memoryview]) -> None:
        last, reason = self.last_published, ""
        if info.game != self._game:
            reason = f"these weights are for the game {info.game}, this run plays {self._game}"
        elif not 0 < info.size <= LARGEST:
            reason = f"{info.size} bytes of weights, expected 1 to {LARGEST}"
        if reason:
            log.warning("weights refused: %s", reason)
            self.port.refuse(session.peer, Code.WEIGHTS_REFUSED, reason, info.version)
        # A higher version is always worth a try, whatever became of earlier ones.
        elif last is None or info.version > last.version:
            self.downloader.wanted(info)
        else:
            # The same weights announced again are no reason for a warning.
            if info.sha256 != last.sha256:
                text = "weights refused: version %d is not newer than the server's, which is %d"
                log.warning(text, info.version, last.version)
            self._send(last)

    def on_chunk(self, session: Session, message: Chunk, frames: list[memoryview]) -> None:
        if not self.downloader.on_chunk(message, frames):
            self.port.charge(session.peer)

    def on_refused(self, _: Session, message: Refused, _frames: list[memoryview]) -> None:
        """Stop the pull: the trainer no longer has these weights, and will announce others."""
        log.warning("the trainer refuses a piece of its weights: %s", message.reason)
        self.downloader.lost()

    async def _use(self, info: WeightsInfo, data: bytes | bytearray) -> str:
        """Store weights, check them and pass them on. A thread stores them: fsync of a large file would delay
        the leaves."""
        try:
            await asyncio.to_thread(self._store.put, info, data)
            reason = await self.pool.objection(info)
        # The downloader tries again later: the disk failed, and the weights may be good.
        except OSError:
            raise
        except Exception as error:
            self._figures.faults.note("storing weights", error)
            return FAULT
        if reason:
            self._figures.weights_refused += 1
            # The file was stored before it could be checked.
            self._store.forget(info)
            return reason
        log.info("weights %d (step %d) are stored, %d bytes", info.version, info.step, info.size)
        with self._figures.faults.survived("taking weights into use"):
            if self.gate is None:
                self.pool.load(info)
            else:
                self.gate.published(info)
        return ""

    def _answer(self, info: WeightsInfo, fault: str) -> None:
        """Tell the trainer what became of its weights."""
        if fault:
            log.error("weights %d are refused: %s", info.version, fault)
            self._send(Refused(Code.WEIGHTS_REFUSED, fault[:2000], info.version))
        else:
            self._send(info)
