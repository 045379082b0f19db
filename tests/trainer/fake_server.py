"""The bulk side of azserver as a trainer sees it, with a record of what the trainer sent."""

import asyncio
import dataclasses
from collections.abc import Callable

from changed_settings import self_play
from router_socket import router

from azselfplay.link.sockets import BULK_LIMIT, Channel, new_context
from protocol.messages import (
    CHUNK,
    Chunk,
    GameAck,
    GetChunk,
    Goodbye,
    Hello,
    Message,
    Ping,
    Pong,
    RelayAck,
    RelayGame,
    TrainerStatus,
    WeightsInfo,
    Welcome,
    decode,
    encode,
)
from protocol.records import GameRecord, sha256, to_bytes

TIMEOUT = 240.0
HWM = 4096
"""Messages in transit: more than any test sends at once, so that none is rejected."""


class FakeServer:
    """Welcomes one trainer, takes its weights, and records everything it sends."""

    def __init__(self, port: int, welcome: Welcome | Goodbye) -> None:
        endpoint = f"tcp://127.0.0.1:{port + 1}"
        self._welcome = welcome
        bound = router(new_context(), [endpoint], limit=BULK_LIMIT, hwm=HWM)
        self._channel = Channel(bound, self._on_message)
        self._channel.start()
        self._changed = asyncio.Event()
        self.trainer = b""
        """The peer that said HELLO last."""
        self.acks: dict[bytes, GameAck] = {}
        self.offers: list[WeightsInfo] = []
        self.files: dict[bytes, bytes] = {}
        self.figures: dict[str, object] = {}
        self.served = b""
        """The file of the weights that WELCOME names."""

    def send(self, message: Message, *frames: bytes) -> None:
        assert self._channel.send([self.trainer, encode(message), *frames])

    def _on_message(self, frames: list[memoryview]) -> None:
        peer, message = bytes(frames[0]), decode(frames[1])
        if isinstance(message, Hello):
            self.trainer = peer
        elif peer != self.trainer:  # a killed trainer's, no sign that the next one has joined
            return
        match message:
            case Hello():
                self.send(self._welcome)
            case Ping():
                self.send(Pong())
            case RelayAck(acks):
                self.acks.update((ack.uid, ack) for _, ack in acks)
            case GetChunk(sha, offset):
                self.send(Chunk(sha, offset), self.served[offset : offset + CHUNK])
            case WeightsInfo() as info:
                self.offers.append(info)
                self.send(GetChunk(info.sha256, 0))
            case Chunk(sha, offset):
                data = self.files[sha] = self.files.get(sha, b"")[:offset] + bytes(frames[2])
                info = next(one for one in self.offers if one.sha256 == sha)
                self.send(info if len(data) == info.size else GetChunk(sha, len(data)))
            case TrainerStatus(figures):
                self.figures = figures
        self._changed.set()

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(TIMEOUT):
            while not condition():
                await self._changed.wait()
                self._changed.clear()

    def play(self, record: GameRecord, key: str = "") -> None:
        data = to_bytes(record)
        self.send(RelayGame(b"peer", record.uid, sha256(data), "workers", key), data)

    def close(self) -> None:
        self._channel.close()


def welcome(game: str = "tic_tac_toe") -> Welcome:
    settings = dataclasses.asdict(self_play(simulations=20))
    weights = WeightsInfo(7, 0, bytes(32), 1, game)
    return Welcome(1, "test", "run-1", game, settings, 1, 1, 5.0, 20.0, weights, "tiny", True)
