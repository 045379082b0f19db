"""The bulk port: games to the trainer and acknowledgements back; weights from the trainer and to clients.

`BulkService` connects the relay of games (`server.relay`), the trainer's session and the weights.

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
import time
from collections.abc import Callable, Mapping

from msgspec import structs

from azselfplay.link.weights_downloader import WeightsDownloader
from azselfplay.link.weights_files import LARGEST
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
from server.relay import Acknowledge, GameRelay, Instruction, Turns
from server.weights import ChunkService, WeightsStore

log = logging.getLogger(__name__)

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
