"""New weights from the trainer. The server pulls them exactly as players pull them from the server.

    WEIGHTS_INFO: what the trainer has -> GET_CHUNK, CHUNK ... -> hash right, file durable and checked
          -> WEIGHTS_INFO: the newest that the server has, or REFUSED

An announcement is refused where it can be, and otherwise always followed, whatever became of the same weights
before. So the trainer repeats it until it is answered, and after every cut, and nothing has to be remembered
here: a server that was killed on the way has the file whole, or pulls it again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from protocol.errors import Code
from protocol.messages import Chunk, Message, Refused, WeightsInfo
from protocol.sessions import Session
from runtime.weights_pull import LARGEST, WeightsPull
from runtime.weights_puller import WeightsPuller
from server.evaluators import EvaluatorPool
from server.figures import Figures
from server.gatekeeper import Gatekeeper
from server.port import FAULT, Port, peer_of
from server.weights import WeightsStore

log = logging.getLogger(__name__)


class WeightsIn:
    """Pulls, stores and passes on. `port` and `pool` are set once they exist."""

    port: Port
    pool: EvaluatorPool

    def __init__(
        self,
        game: str,
        store: WeightsStore,
        figures: Figures,
        clock: Callable[[], float],
        send: Callable[[Message], bool],
    ) -> None:
        """`send` sends to the trainer; False: there is none, or it does not read."""
        self.gate: Gatekeeper | None = None
        """Tests new weights before they are used, with `gate.mode = alphago_zero`."""
        self._game = game
        self._store = store
        self._figures = figures
        self._clock = clock
        self._send = send
        self._puller = WeightsPuller(self._use, send, WeightsPull(), self._answer, advice="")

    async def run(self) -> None:
        """Pull until cancelled."""
        await self._puller.run()

    @property
    def newest(self) -> WeightsInfo | None:
        """Return the weights that were published last."""
        return self.pool.newest if self.gate is None else self.gate.newest

    def on_info(self, session: Session, info: WeightsInfo, _: list[memoryview]) -> None:
        newest = self.newest
        if reason := self._objection(info):
            log.warning("weights refused: %s", reason)
            self.port.refuse(peer_of(session), Code.WEIGHTS_REFUSED, reason, info.version)
        elif newest is None or info.version > newest.version:
            self._puller.wanted(info)
        else:
            if info.sha256 != newest.sha256:
                text = "weights refused: version %d is not newer than the server's, which is %d"
                log.warning(text, info.version, newest.version)
            self._send(newest)

    def on_chunk(self, session: Session, message: Chunk, frames: list[memoryview]) -> None:
        if not self._puller.on_chunk(message, frames):
            self.port.charge(peer_of(session))

    def on_refused(self, _: Session, message: Refused, _frames: list[memoryview]) -> None:
        """The trainer no longer has them, and will announce others."""
        log.warning("the trainer refuses a piece of its weights: %s", message.reason)
        self._puller.lost()

    def trainer_left(self) -> None:
        """Request nothing until a trainer announces weights. What came stays: the same may go on."""
        self._puller.lost()

    def _objection(self, info: WeightsInfo) -> str:
        """Return why these weights are not wanted, or ''."""
        if info.game != self._game:
            return f"these weights are for the game {info.game}, this run plays {self._game}"
        if not 0 < info.size <= LARGEST:
            return f"{info.size} bytes of weights, expected 1 to {LARGEST}"
        return ""

    async def _use(self, info: WeightsInfo, data: bytes | bytearray) -> str:
        """Store, check and pass on. In a thread: fsync of a large file would hold up the leaves."""
        try:
            await asyncio.to_thread(self._store.put, info, data)
            reason = await self.pool.objection(info)
        except OSError:
            raise
        except Exception as error:
            self._figures.faults.note("storing weights", error, self._clock())
            return FAULT
        if reason:
            self._figures.weights_refused += 1
            self._store.forget(info)
            return reason
        log.info("weights %d (step %d) are stored, %d bytes", info.version, info.step, info.size)
        with self._figures.faults.survived("taking weights into use", self._clock()):
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
