"""A front on real sockets for tests, and its peers: workers, trainers, an evaluator that echoes.

The evaluator answers each row with an echo of it, so that an answer to another request is noticed.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import inspect
import selectors
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import zmq
from numpy.testing import assert_array_equal
from ring_parts import GAME, echo, random_leaves

from azselfplay.batching.ring import Demand, Layout
from azselfplay.batching.rings import Filled, Rings
from azselfplay.link.sockets import Channel, Socket, new_context
from protocol.frames import LeafBatch, check_evaluations
from protocol.messages import (
    CHUNK,
    PROTOCOL_VERSION,
    Chunk,
    Evaluate,
    Evaluated,
    EvaluatorReady,
    EvaluatorReport,
    GetChunk,
    GetStatus,
    Grant,
    Hello,
    LoadWeights,
    Message,
    Status,
    WeightsInfo,
    WeightsLoaded,
    WeightsRefused,
    Welcome,
    decode,
    encode,
)
from protocol.settings import SelfPlaySettings
from server.front import Front, FrontSettings
from server.weights import WeightsStore

PATIENCE = 360.0
"""Seconds until a test fails, less than a third of pytest's limit; normally nothing waits this long."""


class Peer:
    """A bare DEALER that sends what the test wants and keeps what comes."""

    def __init__(self, bench: Bench, port: str = "", socket: Socket | None = None) -> None:
        """`socket`: one that has dialled already; None: dial `port`."""
        self.bench = bench
        self.role = ""
        self.inbox: asyncio.Queue[tuple[Message, list[memoryview]]] = asyncio.Queue()
        if socket is None:
            socket = bench.context.socket(zmq.DEALER)
            socket.set(zmq.LINGER, 0)
            socket.connect(bench.endpoints[port])
        self.channel = Channel(socket, self.on_frames)
        self.channel.start()
        bench.channels.append(self.channel)

    def on_frames(self, frames: list[memoryview]) -> None:
        self.inbox.put_nowait((decode(frames[0]), frames[1:]))

    def send(self, message: Message, *frames: bytes | np.ndarray) -> None:
        assert self.channel.send([encode(message), *frames])

    async def receive(self, kind: type) -> tuple:
        """Return the next message with its frames; it must be of this kind. What comes at any time is
        skipped: news of weights to a trainer, and of its share to a player."""
        at_any_time = WeightsInfo if self.role == "trainer" else Grant
        async with asyncio.timeout(PATIENCE):
            message, frames = await self.inbox.get()
            while isinstance(message, at_any_time) and kind is not at_any_time:
                message, frames = await self.inbox.get()
        assert isinstance(message, kind), message
        return message, frames

    async def join(self, role: str, name: str = "test", protocol: int = PROTOCOL_VERSION) -> Welcome:
        self.role = role
        self.send(Hello(protocol, role, name))
        return (await self.receive(Welcome))[0]

    async def status(self) -> dict:
        self.send(GetStatus())
        return (await self.receive(Status))[0].figures


async def publish(trainer: Peer, data: bytes, version: int, game: str = GAME.name) -> WeightsInfo:
    """Announce weights and send the chunks that the server requests, until it says that they are stored."""
    info = WeightsInfo(version, 10 * version, hashlib.sha256(data).digest(), len(data), game)
    trainer.send(info)
    async with asyncio.timeout(PATIENCE):
        while (message := (await trainer.inbox.get())[0]) != info:
            if isinstance(message, GetChunk):
                trainer.send(Chunk(info.sha256, message.offset), data[message.offset :][:CHUNK])
            else:
                assert isinstance(message, WeightsInfo), message
    return info


class EchoEvaluator(Peer):
    """Acts as evaluator `index`, with its rings. While `holding` it takes leaves and answers none."""

    def __init__(
        self, bench: Bench, index: int = 0, target_rows: int = 32, refuses: Collection[int] = ()
    ) -> None:
        """`refuses`: versions of weights that the evaluator refuses."""
        super().__init__(bench, "evaluators")
        self.index = index
        self.holding = False
        self.held: list[Filled] = []
        self.got_leaves = asyncio.Event()
        self.refuses = set(refuses)
        self.cursed: np.uint64 | None = None
        """First word of positions that are refused."""
        self.loaded: list[int] = []
        self.answers_loads = True
        self.got_load = asyncio.Event()
        """Set when weights were to be loaded while `answers_loads` was off."""
        self.demand = Demand(4 * target_rows, 128)
        self.selector = selectors.DefaultSelector()
        path, layout = bench.front.settings.rings[index], Layout.of(GAME, 1, 1)
        self.rings = Rings(path, layout, self.selector, lambda _: None)
        asyncio.get_running_loop().add_reader(self.selector.fileno(), self.on_rings)
        bench.evaluators.append(self)
        self.send(EvaluatorReady(index, "echo", target_rows, target_rows, 2))

    def on_frames(self, frames: list[memoryview]) -> None:
        message = decode(frames[0])
        if isinstance(message, LoadWeights) and message.version in self.refuses:
            self.send(WeightsRefused(message.version, "not finite"))
        elif isinstance(message, LoadWeights) and not self.answers_loads:
            self.got_load.set()
        elif isinstance(message, LoadWeights):
            self.loaded.append(message.version)
            self.send(WeightsLoaded(message.version, message.sha256))

    def on_rings(self) -> None:
        for key, _ in self.selector.select(0):
            if isinstance(key.data, Rings):
                key.data.accept()
                continue
            self.held += self.rings.read(key.data, 0.0)
            key.data.send_demand(self.demand)
        if self.held:
            self.got_leaves.set()
        if not self.holding:
            self.answer_all()
        self.rings.flush()

    def say_loaded(self, info: WeightsInfo) -> None:
        """Send the answer that was held back while `answers_loads` was off."""
        self.send(WeightsLoaded(info.version, info.sha256))

    def answer_all(self) -> None:
        while self.held:
            filled = self.held.pop(0)
            features, counts, actions = leaves_of(filled)
            priors, wdl = echo(features, counts, actions)
            refused = None if self.cursed is None else features[:, 0] == self.cursed
            rows = len(counts)
            report = EvaluatorReport(rows, [rows], [0.001], [0.001])
            self.bench.front.figures.reported(self.index, report, time.monotonic())
            filled.answer(priors, wdl, 7, refused)
        self.rings.flush()

    def die(self) -> None:
        """End as a killed process does."""
        asyncio.get_running_loop().remove_reader(self.selector.fileno())
        for ring in list(self.rings.rings):
            self.rings.close(ring)
        self.rings._listener.close()
        self.selector.close()
        self.bench.evaluators.remove(self)
        self.bench.front.pool.process_ended(self.index, -9)


def leaves_of(filled: Filled) -> LeafBatch:
    """Return copies of the leaves in a slot."""
    slot, rows = filled.ring.memory.slots[filled.index], filled.rows
    legal = slot.legal[: filled.header.legal_bytes].copy().view(np.uint16)
    return LeafBatch(slot.features[:rows].copy(), slot.counts[:rows].copy(), legal)


class Worker(Peer):
    """Sends random leaves and checks that every answer belongs to its leaf."""

    def __init__(self, bench: Bench, seed: int) -> None:
        super().__init__(bench, "leaves")
        self.rng = np.random.default_rng(seed)
        self.requests: dict[int, LeafBatch] = {}
        self.answered: dict[int, set[int]] = {}

    def ask(self, request: int, rows: int) -> None:
        leaves = random_leaves(self.rng, rows)
        self.requests[request], self.answered[request] = leaves, set()
        self.send(Evaluate(request, rows), *leaves)

    async def get_all(self) -> None:
        while self.requests:
            message, frames = await self.receive(Evaluated)
            leaves, last = self.requests[message.request], message.first + message.rows
            mine = leaves.split(last)[0].split(message.first)[1]
            priors, wdl = check_evaluations(message.rows, len(mine.actions), frames)
            wanted = echo(*mine)
            assert_array_equal(priors, wanted[0])
            assert_array_equal(wdl, wanted[1])
            rows = set(range(message.first, last))
            answered = self.answered[message.request]
            assert not rows & answered
            answered |= rows
            if len(answered) == leaves.rows:
                del self.requests[message.request]


class Bench:
    """A front on ipc sockets in a folder of its own, with the peers of a test."""

    def __init__(
        self,
        folder: Path,
        context: zmq.Context,
        settings: Callable[[FrontSettings], FrontSettings] = lambda usual: usual,
        weights: bytes = b"untrained",
    ) -> None:
        self.context = context
        self.channels: list[Channel] = []
        self.evaluators: list[EchoEvaluator] = []
        names = ("leaves", "bulk", "evaluators")
        self.endpoints = {name: f"ipc://{folder / name}" for name in names}
        self.store = WeightsStore(folder, GAME.name)
        self.store.add(weights, 0, 0, "tiny")
        usual = FrontSettings(
            run="test", game=GAME, history=1, self_play=asdict(SelfPlaySettings(history=1)),
            leaves=(self.endpoints["leaves"],), bulk=(self.endpoints["bulk"],),
            evaluators=self.endpoints["evaluators"], rings=tuple(folder / f"ring-{n}" for n in range(8)),
        )  # fmt: skip
        self.front = Front(settings(usual), self.store)

    @property
    def in_flight(self) -> int:
        """Leaves of all sessions that are not answered."""
        return sum(account.in_flight for account in self.front.leaf.credits._accounts.values())

    async def evaluator(self, index: int = 0, target_rows: int = 32) -> EchoEvaluator:
        """Return an evaluator that is up."""
        self.front.one_up.clear()
        evaluator = EchoEvaluator(self, index, target_rows)
        async with asyncio.timeout(PATIENCE):
            await self.front.one_up.wait()
        return evaluator

    async def peer(self, port: str, role: str) -> Peer:
        """Return a peer that has a session."""
        peer = Peer(self, port)
        await peer.join(role)
        return peer

    async def worker(self, seed: int, role: str = "client") -> Worker:
        """Return a worker that has a session."""
        worker = Worker(self, seed)
        await worker.join(role)
        return worker


@asynccontextmanager
async def running_front(folder: Path, **bench_arguments: Any) -> AsyncIterator[Bench]:
    """Run a front in this event loop. A body of the `async with` that waits in vain fails in time."""
    context = new_context()
    bench = Bench(folder, context, **bench_arguments)
    try:
        async with asyncio.TaskGroup() as group:
            serving = group.create_task(bench.front.run())
            async with asyncio.timeout(3 * PATIENCE):
                yield bench
            serving.cancel()
    finally:
        bench.front.close()
        for evaluator in list(bench.evaluators):
            evaluator.die()
        for channel in bench.channels:
            channel.close()
        context.destroy(0)  # not term(), which waits for sockets that a failed scenario left open


def inside(place: Callable[[Path], AbstractAsyncContextManager[Any]]) -> Callable[..., Any]:
    """Return a decorator for `async def test(SUBJECT, FIXTURES)`. The test runs inside `place(tmp_path)`,
    which gives its subject."""

    def decorator(scenario: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
        @functools.wraps(scenario)
        async def test(tmp_path: Path, **fixtures: Any) -> None:
            async with place(tmp_path) as subject:
                await scenario(subject, **fixtures)

        # pytest reads the names of the fixtures from the signature.
        subject, *fixtures = inspect.signature(scenario).parameters.values()
        test.__signature__ = inspect.Signature([subject.replace(name="tmp_path"), *fixtures])  # type: ignore[attr-defined]
        return test

    return decorator


beside_front = inside(running_front)
"""For `async def test(bench, FIXTURES)`, which runs beside a front with real sockets."""
