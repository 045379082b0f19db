"""The parts of the system as processes of a simulation: azserver's front, an evaluator, the trainer's
games, a player.

All decisions, and almost all actions, are made by the real code: Front with its ports and services,
Connection, Uploader on a real Spool, RemoteEvaluator, IngestTable, Committer and Store on real files. Only
the network, the clock, the neural network (a hash of the position), the search (random positions) and the
games (random ones, made beforehand) are replaced.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from changed_settings import self_play
from ring_parts import GAME, WORDS, echo, random_leaves
from simulated_weights import Publishing, downloader, loaded
from virtual_net import Link, Network, VirtualChannel, VirtualDoor

from azselfplay.batching.producer import Events, Leaves
from azselfplay.batching.ring import Demand
from azselfplay.link.connection import Connection
from azselfplay.link.weights_pull import WeightsPull
from azselfplay.search.evaluator import Evaluations
from azselfplay.store.sqlite import Store
from client.remote_evaluator import LeafRefused, RemoteEvaluator
from client.spool import Spool, Terms
from client.uploader import Uploader, Uploads
from protocol.frames import LeafBatch, check_leaves
from protocol.messages import (
    PROTOCOL_VERSION,
    Evaluated,
    EvaluatorReady,
    GameAck,
    Goodbye,
    Grant,
    Hello,
    LoadWeights,
    Message,
    Ping,
    Refused,
    RelayGame,
    WeightsLoaded,
    Welcome,
    decode,
    encode,
)
from protocol.records import GameRecord, sha256, to_bytes
from trainer.ingest import Committer, Done, IngestTable, Job
from trainer.verify import Verifier

if TYPE_CHECKING:
    from simulation import World

LEAVES, BULK = "tcp://server:1", "tcp://server:2"
EVALUATORS, RING = "ipc://evaluators", "ipc://ring"
SIMULATIONS = 20
JOBS_PER_COMMIT = 16
FAULTY = 0.05
"""Share of games that break the rules."""
SAME_UID = 0.02
"""Share of games that come under the uid of another client's game."""


@dataclass(frozen=True)
class Kinds:
    """The classes of the parts; mutants replace them by faulty ones."""

    uploads: Callable[[], Uploads] = Uploads
    store: Callable[[Path, str], Store] = Store
    trainer: Callable[[World], Any] = lambda world: SimulatedTrainer(world)
    pull: Callable[[], WeightsPull] = WeightsPull
    evaluator: Callable[[World], Any] = lambda world: SimulatedEvaluator(world)


class SimulatedEvaluator:
    """Answers each row with a hash of it."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._version = 0
        link = Link(world.net, EVALUATORS)
        link.on_connected = self._say_ready
        self._channel = VirtualChannel(link, self._on_frames)
        self._rings = VirtualDoor(world.net, [RING])
        self._rings.start(self._on_leaves, lambda _peer, _why: None)

    async def run(self) -> None:
        while True:
            await asyncio.sleep(5.0)
            self._channel.send([encode(Ping())])

    def _say_ready(self) -> None:
        self._channel.send([encode(EvaluatorReady(0, "echo", 16, 16, 2))])

    def _on_frames(self, frames: list[memoryview]) -> None:
        message = decode(frames[0])
        if isinstance(message, LoadWeights):
            answer = loaded(self._world, message)
            if isinstance(answer, WeightsLoaded):
                self._version = message.version
            self._channel.send([encode(answer)])
        elif isinstance(message, Goodbye):
            self._say_ready()

    def _on_leaves(self, peer: bytes, frames: list[memoryview]) -> None:
        leaves = check_leaves(len(frames[2]) // 2, WORDS, GAME.actions, frames[1:], max_legal=GAME.max_legal)
        delay = self._world.rng.uniform(0.0, 0.02)
        asyncio.get_running_loop().call_later(delay, self.answer, (peer, bytes(frames[0])), leaves)

    def answer(self, asked: tuple[bytes, bytes], leaves: Any) -> None:
        """Answer the leaves in one slot: `asked` is the ring's peer and the slot."""
        peer, slot = asked
        priors, wdl = echo(*leaves)
        self._rings.send(peer, [slot, self._version.to_bytes(8), priors, wdl])


class SimulatedRing:
    """Takes the place of `batching.producer.RingClient`: the slots travel over a connection of the simulated
    network, so that it can be cut, and its evaluator killed, at any time."""

    SLOTS = 8

    def __init__(self, net: Network, _paths: Any, _layout: Any, _name: str, events: Events) -> None:
        self._net = net
        self._events = events
        self._sent: dict[bytes, Leaves] = {}
        self._next = 0

    def start(self) -> None:
        self._link = Link(self._net, RING)
        self._link.on_connected = self._connected
        self._channel = VirtualChannel(self._link, self._on_frames)

    def close(self) -> None:
        self._link.close()

    @property
    def room(self) -> int:
        return self.SLOTS - len(self._sent) if self._link.door is not None else 0

    @property
    def sent_rows(self) -> int:
        return sum(leaves.rows for leaves in self._sent.values())

    @property
    def demand(self) -> Demand:
        return Demand(64, 128)

    def send(self, leaves: Leaves) -> None:
        self._next += 1
        slot = self._next.to_bytes(8)
        self._sent[slot] = leaves
        self._channel.send([slot, *leaves.frames])

    def flush(self) -> None:
        """Slots are sent at once."""

    def _connected(self) -> None:
        """Note that another connection has begun: what the last one had is lost."""
        lost, self._sent = list(self._sent.values()), {}
        self._events.lost(lost)

    def _on_frames(self, frames: list[memoryview]) -> None:
        leaves = self._sent.pop(bytes(frames[0]), None)
        if leaves is not None:
            priors, wdl = np.frombuffer(frames[2], np.float16), np.frombuffer(frames[3], np.float32)
            version = int.from_bytes(frames[1])
            self._events.answered(leaves, Evaluations(priors, wdl.reshape(-1, 3), version), 0)
            self._events.room()


class SimulatedTrainer:
    """Does what `trainer.service.Service` does with games, on a connection of its own."""

    def __init__(self, world: World) -> None:
        self.world = world
        secret = world.rng.randbytes(16)
        self.connection = Connection(
            None,
            BULK,
            Hello(PROTOCOL_VERSION, "trainer", "trainer", secret=secret),
            on_message=self._on_message,
            on_joined=lambda welcome: self.weights.out.joined(welcome, world.loop.time()),
            on_lost=lambda _: self.weights.out.lost(),
        )
        self.weights = Publishing(world, self)
        self.store = world.kinds.store(world.database, GAME.name)
        self.committer = Committer(Verifier(GAME, self_play(simulations=SIMULATIONS)), self.store)
        self.ingest = IngestTable()
        self._jobs: list[Job] = []
        self._came = asyncio.Event()
        world.at_end("trainer", self.store.close)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self.connection.run())
            group.create_task(self._take_games())
            group.create_task(self.weights.run())

    def _on_message(self, message: Message, frames: list[memoryview]) -> None:
        self.weights.out.on_message(message, self.world.loop.time())
        if not isinstance(message, RelayGame):
            return
        answer = self.ingest.on_game(message, bytes(frames[0]))
        if isinstance(answer, Job):
            self._jobs.append(answer)
            self._came.set()
        elif answer is not None:
            self.connection.send(answer)

    async def _take_games(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._came.wait()
            self._came.clear()
            while self._jobs:
                jobs, self._jobs = self._jobs[:JOBS_PER_COMMIT], self._jobs[JOBS_PER_COMMIT:]
                await self.take(jobs, loop)

    async def take(self, jobs: list[Job], loop: asyncio.AbstractEventLoop) -> None:
        result = await loop.run_in_executor(None, self.committer.process, jobs, 1)
        self.world.ledger.trained(record.uid for record in result.games)
        self.acknowledge(result.done)

    def acknowledge(self, done: list[Done]) -> None:
        for message in self.ingest.on_done(done):
            self.connection.send(message)


class Asked:
    """Requested leaves and their answers: a row may be answered more than once."""

    def __init__(self, world: World, batch: LeafBatch) -> None:
        self.batch = batch
        self.rows = set(range(self.batch.rows))
        """Rows without an answer."""
        self.done = asyncio.Event()
        self._world = world

    def answered(self, first: int, evaluations: Evaluations) -> None:
        last = first + len(evaluations.wdl)
        priors, wdl = echo(*self.batch.split(last)[0].split(first)[1])
        is_mine = np.array_equal(priors, evaluations.priors) and np.array_equal(wdl, evaluations.wdl)
        self._world.ledger.leaves(last - first, is_mine=is_mine)
        self._count(range(first, last))

    def failed(self, first: int, rows: int, error: Exception) -> None:
        assert isinstance(error, LeafRefused)
        self._count(range(first, first + rows))

    def _count(self, rows: range) -> None:
        self.rows.difference_update(rows)
        if not self.rows:
            self.done.set()


class SimulatedClient:
    """A player: `client.worker.Worker` without searches."""

    def __init__(self, world: World, index: int) -> None:
        self.world = world
        self.name = f"client-{index}"
        self.folder = world.folder / self.name
        self.folder.mkdir(exist_ok=True)
        hello = Hello(PROTOCOL_VERSION, "client", self.name)
        hears = {"on_message": self._on_bulk, "on_joined": self._on_joined, "on_lost": self._on_lost}
        self.bulk = Connection(None, BULK, hello, **hears)
        self.leaves = Connection(
            None,
            LEAVES,
            hello,
            on_message=self._on_leaves,
            on_joined=lambda welcome: self.remote.joined(welcome),
            on_lost=lambda _: self.remote.lost(),
        )
        self.remote = RemoteEvaluator(self.leaves.send)
        self.uploader = Uploader(Spool(self.folder), self.bulk.send, world.kinds.uploads())
        self.downloader = downloader(world, self)
        self.asked: list[Asked] = []
        self._rng = random.Random(world.rng.random())
        self._random = np.random.default_rng(world.rng.getrandbits(32))
        world.at_end(self.name, self.remote.close)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for part in (
                self.bulk.run(),
                self.leaves.run(),
                self.uploader.run(),
                self.downloader.run(),
                self._play(),
                self._search(),
            ):
                group.create_task(part)

    # ---- games ------------------------------------------------------------------------------

    async def _play(self) -> None:
        while self.world.more_games():
            await asyncio.sleep(self._rng.uniform(0.0, self.world.plan.game_seconds))
            await self.uploader.room.wait()
            record = self._game()
            data = to_bytes(record)
            self.world.ledger.played(self.name, record.uid, sha256(data))
            await self.uploader.save(record)
            self.world.ledger.kept(self.name, record.uid, sha256(data))

    def _game(self) -> GameRecord:
        uid, games = self._rng.randbytes(16), self.world.games
        mine = {uid for client, uid in self.world.ledger.uids if client == self.name}
        others = [uid for _, uid in self.world.ledger.uids if uid not in mine]
        if others and self._rng.random() < SAME_UID:
            uid = self._rng.choice(others)
        record = replace(self._rng.choice(games), uid=uid, seed=self._rng.getrandbits(60))
        if self._rng.random() < FAULTY:
            return replace(record, outcome=-record.outcome or 1)
        return record

    def _on_joined(self, welcome: Welcome) -> None:
        self.uploader.joined(Terms.of(welcome), trainer_present=welcome.trainer_present)
        self.downloader.joined(welcome)

    def _on_lost(self, _: str) -> None:
        self.uploader.lost()
        self.downloader.lost()

    def _on_bulk(self, message: Message, frames: list[memoryview]) -> None:
        self.downloader.on_message(message, frames)
        if isinstance(message, GameAck):
            self.world.ledger.acknowledged(message)
            self.uploader.acknowledged(message)

    # ---- leaves -----------------------------------------------------------------------------

    async def _search(self) -> None:
        while self.world.more_leaves():
            asked = Asked(self.world, random_leaves(self._random, self._rng.randint(1, 24)))
            self.asked = [one for one in self.asked if one.rows] + [asked]
            self.remote.submit(asked.batch, asked)
            if len(self.asked) >= 4:
                await self.asked[0].done.wait()
            await asyncio.sleep(self._rng.uniform(0.0, self.world.plan.game_seconds))

    def _on_leaves(self, message: Message, frames: list[memoryview]) -> None:
        if isinstance(message, Evaluated):
            self.remote.on_evaluated(message, frames)
        elif isinstance(message, Refused):
            self.remote.on_refused(message)
        elif isinstance(message, Grant):
            self.remote.granted(message.credits)
