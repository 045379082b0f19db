"""A small server inside the test: it answers what a worker asks, from a script of the test."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path

import numpy as np
from changed_settings import self_play
from router_socket import router

from azselfplay.link.sockets import BULK_LIMIT, Channel, Context, new_context
from protocol.frames import check_leaves
from protocol.messages import (
    CHUNK,
    Chunk,
    Evaluate,
    Evaluated,
    GameAck,
    GetChunk,
    GetStatus,
    Goodbye,
    Hello,
    Message,
    Ping,
    Pong,
    PutGame,
    Status,
    WeightsInfo,
    Welcome,
    decode,
    encode,
)
from protocol.records import GameRecord, from_bytes
from protocol.sessions import hello_first


def echo_value(features: np.ndarray) -> float:
    """Return a value that depends on the position alone, so that a swapped answer shows."""
    return float(int(features.sum(dtype=np.uint64)) % 1009) / 1009


def echo_priors(actions: np.ndarray) -> np.ndarray:
    """Return priors that depend on the actions alone and are exact in float16."""
    return ((actions.astype(np.int64) * 37 + 11) % 64 / 64).astype(np.float16)


class FakeServer:
    """One ROUTER. `seen` has the messages in order; each kind has a method that a test may replace."""

    def __init__(self, context: Context, endpoint: str, **welcome: object) -> None:
        self.welcome = Welcome(**{**WELCOME, **welcome})  # type: ignore[arg-type]
        self.words = 0
        self.seen: list[Message] = []
        self._news = asyncio.Event()
        self.records: list[GameRecord] = []
        self.weights = b""
        self.figures: dict[str, object] = {}
        self.refusal: Goodbye | None = None
        self.peers: set[bytes] = set()
        self.ack: Callable[[PutGame], GameAck | None] = lambda message: GameAck(message.uid, "stored")
        self.evaluate: Callable[[bytes, Evaluate, list[memoryview]], None] = self.answer
        self.channel = Channel(router(context, [endpoint], limit=BULK_LIMIT), self._on_message)
        self.channel.start()

    def close(self) -> None:
        self.channel.close()

    async def until(self, kind: type[Message]) -> None:
        """Wait until a message of this kind has come."""
        while not any(isinstance(message, kind) for message in self.seen):
            await self._news.wait()
            self._news.clear()

    def send(self, peer: bytes, message: Message, *frames: object) -> None:
        assert self.channel.send([peer, encode(message), *frames])  # type: ignore[list-item]

    def _on_message(self, frames: list[memoryview]) -> None:
        peer, message = bytes(frames[0]), decode(frames[1])
        if peer not in self.peers and not isinstance(message, Hello):
            self.send(peer, hello_first())
            return
        self.seen.append(message)
        self._news.set()
        match message:
            case Hello():
                self.peers.add(peer)
                self.send(peer, self.refusal or self.welcome)
            case Ping():
                self.send(peer, Pong())
            case Evaluate():
                self.evaluate(peer, message, frames[2:])
            case PutGame():
                self.records.append(from_bytes(bytes(frames[2])))
                answer = self.ack(message)
                if answer is not None:
                    self.send(peer, answer)
            case GetStatus():
                self.send(peer, Status(self.figures))
            case GetChunk(sha256, offset):
                self.send(peer, Chunk(sha256, offset), self.weights[offset : offset + CHUNK])
            case _:
                pass

    def answer(self, peer: bytes, message: Evaluate, frames: list[memoryview]) -> None:
        """Answer the whole request in one message."""
        leaves = check_leaves(message.rows, self.words, 10_000, frames, max_legal=10_000)
        wdl = np.zeros((message.rows, 3), np.float32)
        wdl[:, 0] = [echo_value(row) for row in leaves.features]
        wdl[:, 1] = 1 - wdl[:, 0]
        self.send(peer, Evaluated(message.request, 0, message.rows, 7), echo_priors(leaves.actions), wdl)


WELCOME = {
    "session": 1,
    "software": "test",
    "run": "r1",
    "game": "tic_tac_toe",
    "self_play": asdict(self_play(simulations=8, seed=3)),
    "credits": 300,
    "games_in_flight": 4,
    "heartbeat": 0.2,
    "lease": 60.0,
    "weights": None,
    "trainer_present": True,
}


def info_of(data: bytes, version: int, sha256: bytes) -> WeightsInfo:
    return WeightsInfo(version, 10 * version, sha256, len(data), "tic_tac_toe")


@asynccontextmanager
async def small_server(folder: Path) -> AsyncIterator[tuple[Context, str, FakeServer]]:
    """Give context, endpoint and server, which listens on a local socket, for 240 s."""
    context = new_context()
    endpoint = f"ipc://{folder}/s"
    server = FakeServer(context, endpoint)
    try:
        async with asyncio.timeout(240):
            yield context, endpoint, server
    finally:
        server.close()
        context.destroy(0)
