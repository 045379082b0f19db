"""The front with real sockets and an evaluator that answers each row with a hash of it."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import zmq

from games import get_game
from protocol.errors import Code
from protocol.frames import check_evaluations, check_leaves
from protocol.messages import (
    CHUNK,
    PROTOCOL_VERSION,
    AnyMessage,
    Batch,
    BatchDone,
    Bye,
    Chunk,
    Evaluate,
    Evaluated,
    EvaluatorReady,
    GameAck,
    GetChunk,
    GetStatus,
    GetWeights,
    Goodbye,
    Hello,
    LoadWeights,
    Message,
    Ping,
    Pong,
    PutGame,
    PutWeights,
    Refused,
    RelayAck,
    RelayGame,
    Status,
    TrainerStatus,
    WeightsInfo,
    WeightsLoaded,
    WeightsRefused,
    WeightsWanted,
    Welcome,
    decode,
    encode,
)
from protocol.settings import SelfPlaySettings
from runtime.sockets import Channel, new_context, subscriber
from server.front import Front, FrontSettings
from server.weights import WeightsStore

GAME = get_game("tic_tac_toe")
WORDS = GAME.feature_words(1)
PATIENCE = 10.0
"""Seconds after which a test has failed; nothing waits this long when all is well."""


def echo(row: np.ndarray, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Priors and wdl that only this row with these actions gets."""
    digest = np.frombuffer(hashlib.sha256(row.tobytes()).digest(), np.uint8)
    return digest[actions % 32].astype(np.float16) / np.float16(256), digest[:3].astype(np.float32) / 256


def echo_all(features: np.ndarray, counts: np.ndarray, actions: np.ndarray) -> list[np.ndarray]:
    parts = np.split(actions, np.cumsum(counts)[:-1])
    answers = [echo(row, part) for row, part in zip(features, parts, strict=True)]
    return [np.concatenate([a[0] for a in answers]), np.array([a[1] for a in answers], np.float32)]


def random_leaves(rng: np.random.Generator, rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    counts = rng.integers(1, 10, rows).astype(np.uint16)
    features = rng.integers(0, 2**62, (rows, WORDS)).astype(np.uint64)
    return features, counts, rng.integers(0, 9, int(counts.sum())).astype(np.uint16)


class Peer:
    """A bare DEALER: sends what it is told, keeps what comes."""

    def __init__(self, bench: Bench, port: str) -> None:
        self.bench = bench
        self.inbox: asyncio.Queue[tuple[AnyMessage, list[memoryview]]] = asyncio.Queue()
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
        """The next message, which must be of this kind, with its frames."""
        async with asyncio.timeout(PATIENCE):
            message, frames = await self.inbox.get()
        assert isinstance(message, kind), message
        return message, frames

    async def join(self, role: str, name: str = "test", protocol: int = PROTOCOL_VERSION) -> Welcome:
        self.send(Hello(protocol, role, name))
        return (await self.receive(Welcome))[0]

    async def status(self) -> dict:
        self.send(GetStatus())
        return (await self.receive(Status))[0].figures


class EchoEvaluator(Peer):
    """Plays evaluator `index`. While `holding` it takes batches and answers none."""

    def __init__(self, bench: Bench, index: int = 0, target_rows: int = 32) -> None:
        super().__init__(bench, "evaluators")
        self.holding = False
        self.held: list[tuple[Batch, list[memoryview]]] = []
        self.got_batch = asyncio.Event()
        self.refuses: set[int] = set()
        self.loaded: list[int] = []
        self.send(EvaluatorReady(index, "echo", target_rows, target_rows, 2))

    def on_frames(self, frames: list[memoryview]) -> None:
        message = decode(frames[0])
        if isinstance(message, LoadWeights) and message.version in self.refuses:
            self.send(WeightsRefused(message.version, "not finite"))
        elif isinstance(message, LoadWeights):
            self.loaded.append(message.version)
            self.send(WeightsLoaded(message.version, message.sha256))
        elif isinstance(message, Batch):
            self.held.append((message, frames[1:]))
            self.got_batch.set()
            if not self.holding:
                self.answer_all()

    def answer_all(self) -> None:
        while self.held:
            batch, frames = self.held.pop(0)
            leaves = check_leaves(batch.rows, WORDS, GAME.actions, frames)
            self.send(BatchDone(batch.batch, batch.rows, 7, 0.001), *echo_all(*leaves))


class Worker(Peer):
    """Sends random leaves and checks that what comes back is theirs."""

    def __init__(self, bench: Bench, seed: int) -> None:
        super().__init__(bench, "leaves")
        self.rng = np.random.default_rng(seed)
        self.requests: dict[int, tuple] = {}
        self.answered: dict[int, set[int]] = {}

    def ask(self, request: int, rows: int) -> None:
        leaves = random_leaves(self.rng, rows)
        self.requests[request], self.answered[request] = leaves, set()
        self.send(Evaluate(request, rows), *leaves)

    async def get_all(self) -> None:
        while self.requests:
            message, frames = await self.receive(Evaluated)
            features, counts, actions = self.requests[message.request]
            ends = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
            last = message.first + message.rows
            mine = actions[ends[message.first] : ends[last]]
            priors, wdl = check_evaluations(message.rows, len(mine), frames)
            wanted = echo_all(features[message.first : last], counts[message.first : last], mine)
            np.testing.assert_array_equal(priors, wanted[0])
            np.testing.assert_array_equal(wdl, wanted[1])
            rows = set(range(message.first, last))
            answered = self.answered[message.request]
            assert not rows & answered
            answered |= rows
            if len(answered) == len(counts):
                del self.requests[message.request]


class Bench:
    """A front on ipc sockets in a folder of its own, and the peers of a test."""

    def __init__(self, folder: Path, context: zmq.Context) -> None:
        self.context = context
        self.channels: list[Channel] = []
        names = ("leaves", "bulk", "announce", "evaluators")
        self.endpoints = {name: f"ipc://{folder / name}" for name in names}
        self.store = WeightsStore(folder, GAME.name)
        self.store.add(b"untrained", 0, 0, "tiny")
        settings = FrontSettings(
            run="test", game=GAME, history=1, self_play=asdict(SelfPlaySettings(history=1)),
            leaves=(self.endpoints["leaves"],), bulk=(self.endpoints["bulk"],),
            announce=(self.endpoints["announce"],), evaluators=self.endpoints["evaluators"],
        )  # fmt: skip
        self.front = Front(context, settings, self.store)

    async def evaluator(self, index: int = 0, target_rows: int = 32) -> EchoEvaluator:
        """An evaluator that is up."""
        self.front.one_up.clear()
        evaluator = EchoEvaluator(self, index, target_rows)
        async with asyncio.timeout(PATIENCE):
            await self.front.one_up.wait()
        return evaluator


Scenario = Callable[[Bench], Awaitable[None]]


@pytest.fixture
def play(tmp_path: Path) -> Callable[[Scenario], None]:
    """Runs a scenario beside a front, both in one event loop."""

    async def main(scenario: Scenario) -> None:
        context = new_context()
        bench = Bench(tmp_path, context)
        try:
            async with asyncio.TaskGroup() as group:
                serving = group.create_task(bench.front.run())
                await scenario(bench)
                serving.cancel()
        finally:
            bench.front.close()
            for channel in bench.channels:
                channel.close()
            context.term()

    return lambda scenario: asyncio.run(main(scenario))


def test_every_reply_belongs_to_its_request_with_two_workers_of_different_sizes(play: Callable) -> None:
    async def scenario(bench: Bench) -> None:
        await bench.evaluator(target_rows=32)
        small, large = Worker(bench, 1), Worker(bench, 2)
        welcome = await small.join("worker")
        assert (welcome.games_in_flight, welcome.game) == (4 * 32, "tic_tac_toe")
        await large.join("client")
        for request in range(1, 41):
            small.ask(request, 1 + request % 3)
            if request % 10 == 0:
                large.ask(request, 90)
        await small.get_all()
        await large.get_all()
        figures = await small.status()
        assert figures["evals"] == sum(1 + request % 3 for request in range(1, 41)) + 4 * 90
        assert figures["sessions"] == {"workers": 1, "clients": 1, "trainer": 0}
        assert (figures["over_credit"], figures["protocol_errors"]) == (0, 0)

    play(scenario)


def test_rows_of_an_evaluator_killed_in_a_batch_are_redone_by_another(play: Callable) -> None:
    async def scenario(bench: Bench) -> None:
        dying = await bench.evaluator(0, target_rows=8)
        worker = Worker(bench, 1)
        await worker.join("worker")
        dying.holding = True
        worker.ask(1, 20)
        async with asyncio.timeout(PATIENCE):
            await dying.got_batch.wait()
        bench.front.pool.process_ended(0)
        dying.answer_all()
        await bench.evaluator(0, target_rows=8)
        await worker.get_all()
        figures = await worker.status()
        assert figures["evaluator_restarts"] == 1
        assert figures["redone_rows"] >= 8

    play(scenario)


def test_an_answer_that_is_no_evaluation_is_not_passed_on(play: Callable) -> None:
    async def scenario(bench: Bench) -> None:
        evaluator = await bench.evaluator()
        worker = Worker(bench, 1)
        await worker.join("worker")
        evaluator.holding = True
        worker.ask(1, 5)
        async with asyncio.timeout(PATIENCE):
            await evaluator.got_batch.wait()
        batch, frames = evaluator.held.pop()
        priors, wdl = echo_all(*check_leaves(5, WORDS, 9, frames))
        evaluator.holding = False
        evaluator.send(BatchDone(batch.batch, 5, 7), priors, np.full_like(wdl, np.nan))
        await worker.get_all()
        assert (await worker.status())["bad_batches"] == 1

    play(scenario)


def test_garbage_on_both_ports_is_counted_and_dropped_while_service_goes_on(play: Callable) -> None:
    async def scenario(bench: Bench) -> None:
        await bench.evaluator()
        worker = Worker(bench, 1)
        await worker.join("worker")
        for port in ("leaves", "bulk"):
            vandal = Peer(bench, port)
            for garbage in (
                [b""],
                [b"\xff" * 50],
                [b"\xdd\xff\xff\xff\xff"],
                [encode(Ping())[:-1], b"x"] * 9,
            ):
                assert vandal.channel.send(garbage)
            vandal.send(Ping())
            assert (await vandal.receive(Goodbye))[0].code == Code.HELLO_REQUIRED
        worker.ask(1, 10)
        await worker.get_all()
        assert (await worker.status())["protocol_errors"] == 8

    play(scenario)


def test_leaves_that_do_not_fit_their_header_are_refused_by_request(play: Callable) -> None:
    async def scenario(bench: Bench) -> None:
        await bench.evaluator()
        worker = Worker(bench, 1)
        await worker.join("worker")
        features, counts, actions = random_leaves(worker.rng, 4)
        worker.send(Evaluate(5, 3), features, counts, actions)
        refused = (await worker.receive(Refused))[0]
        assert (refused.request, refused.code) == (5, Code.BAD_FRAMES)
        worker.send(Evaluate(6, 4), features, counts)
        assert (await worker.receive(Refused))[0].request == 6

    play(scenario)


def test_leaves_beyond_the_credits_are_refused_and_may_come_again(play: Callable) -> None:
    async def scenario(bench: Bench) -> None:
        evaluator = await bench.evaluator()
        evaluator.holding = True
        worker = Worker(bench, 1)
        welcome = await worker.join("worker")
        leaves = random_leaves(worker.rng, welcome.credits + 1)
        worker.send(Evaluate(1, welcome.credits + 1), *leaves)
        refused = (await worker.receive(Refused))[0]
        assert (refused.code, refused.retry_after > 0) == (Code.OVER_CREDIT, True)
        assert (await worker.status())["over_credit"] == 1

    play(scenario)


def test_another_protocol_version_is_told_which_side_to_upgrade(play: Callable) -> None:
    async def scenario(bench: Bench) -> None:
        for protocol, side in ((PROTOCOL_VERSION + 1, "server"), (PROTOCOL_VERSION - 1, "client")):
            peer = Peer(bench, "leaves")
            peer.send(Hello(protocol, "client"))
            goodbye = (await peer.receive(Goodbye))[0]
            assert f"upgrade the {side}" in goodbye.reason

    play(scenario)


def test_before_any_evaluator_is_up_players_are_asked_to_come_back(play: Callable) -> None:
    async def scenario(bench: Bench) -> None:
        peer = Peer(bench, "leaves")
        peer.send(Hello(PROTOCOL_VERSION, "worker"))
        goodbye = (await peer.receive(Goodbye))[0]
        assert (goodbye.code, goodbye.retry_after > 0) == (Code.BUSY, True)

    play(scenario)


def test_a_ping_is_answered_and_after_bye_the_session_is_gone(play: Callable) -> None:
    async def scenario(bench: Bench) -> None:
        peer = Peer(bench, "bulk")
        await peer.join("watcher")
        peer.send(Ping())
        await peer.receive(Pong)
        peer.send(Bye())
        peer.send(Ping())
        assert (await peer.receive(Goodbye))[0].code == Code.HELLO_REQUIRED

    play(scenario)


def test_games_reach_the_trainer_and_acknowledgements_their_worker(play: Callable) -> None:
    async def scenario(bench: Bench) -> None:
        await bench.evaluator()
        worker, client, trainer = (Peer(bench, "bulk") for _ in range(3))
        await worker.join("worker")
        await client.join("client")
        put = PutGame(b"w" * 16, b"s" * 32)
        worker.send(put, b"record w")
        early = (await worker.receive(GameAck))[0]
        assert (early.status, early.reason) == ("retry", Code.NO_TRAINER)
        await trainer.join("trainer")
        worker.send(put, b"record w")
        client.send(PutGame(b"c" * 16, b"s" * 32), b"record c")
        games = [await trainer.receive(RelayGame) for _ in range(2)]
        by_source = {game.source: (game, bytes(frames[0])) for game, frames in games}
        assert by_source["workers"][1] == b"record w"
        assert by_source["clients"][1] == b"record c"
        trainer.send(RelayAck([(game.peer, GameAck(game.uid, "stored")) for game, _ in games]))
        assert (await worker.receive(GameAck))[0] == GameAck(b"w" * 16, "stored")
        assert (await client.receive(GameAck))[0] == GameAck(b"c" * 16, "stored")
        trainer.send(TrainerStatus({"games": 2}))
        assert (await trainer.status())["trainer"] == {"games": 2}

    play(scenario)


def test_a_second_trainer_is_refused_and_a_restarted_one_takes_over(play: Callable) -> None:
    async def scenario(bench: Bench) -> None:
        first, second, restarted = (Peer(bench, "bulk") for _ in range(3))
        await first.join("trainer", "host/1")
        second.send(Hello(PROTOCOL_VERSION, "trainer", "other/1"))
        assert (await second.receive(Goodbye))[0].code == Code.TRAINER_ALREADY_PRESENT
        await restarted.join("trainer", "host/1")
        assert (await first.receive(Goodbye))[0].code == Code.TRAINER_ALREADY_PRESENT
        assert (await restarted.status())["sessions"]["trainer"] == 1

    play(scenario)


def test_a_worker_may_not_publish_weights(play: Callable) -> None:
    async def scenario(bench: Bench) -> None:
        await bench.evaluator()
        worker = Peer(bench, "bulk")
        await worker.join("worker")
        worker.send(PutWeights(WeightsInfo(9, 0, b"x" * 32, 10, GAME.name)))
        assert (await worker.receive(Refused))[0].code == Code.ROLE_NOT_ALLOWED

    play(scenario)


async def publish(trainer: Peer, data: bytes, version: int) -> WeightsInfo:
    """Upload weights chunk by chunk, until the server says that they are stored."""
    info = WeightsInfo(version, 10 * version, hashlib.sha256(data).digest(), len(data), GAME.name)
    trainer.send(PutWeights(info))
    while (offset := (await trainer.receive(WeightsWanted))[0].offset) < len(data):
        trainer.send(Chunk(info.sha256, offset), data[offset : offset + CHUNK])
    return info


def test_published_weights_are_loaded_announced_and_served(play: Callable) -> None:
    async def scenario(bench: Bench) -> None:
        evaluator = await bench.evaluator()
        announced: asyncio.Queue = asyncio.Queue()
        listener = Channel(
            subscriber(bench.context, bench.endpoints["announce"]),
            lambda frames: announced.put_nowait(decode(frames[0])),
        )
        bench.channels.append(listener)
        listener.start()
        trainer, puller = Peer(bench, "bulk"), Peer(bench, "bulk")
        await trainer.join("trainer")
        await puller.join("watcher")
        data = bytes(range(256)) * 3000
        info = await publish(trainer, data, 1)
        async with asyncio.timeout(PATIENCE):
            while await announced.get() != info:
                pass
        assert evaluator.loaded == [0, 1]
        puller.send(GetWeights())
        assert (await puller.receive(WeightsInfo))[0] == info
        for offset in range(0, len(data), CHUNK):
            puller.send(GetChunk(info.sha256, offset))
            assert bytes((await puller.receive(Chunk))[1][0]) == data[offset : offset + CHUNK]
        puller.send(GetChunk(b"?" * 32, 0))
        assert (await puller.receive(Refused))[0].code == Code.UNKNOWN_WEIGHTS

    play(scenario)


def test_weights_that_no_evaluator_takes_are_thrown_away_and_the_old_stay(play: Callable) -> None:
    async def scenario(bench: Bench) -> None:
        evaluator = await bench.evaluator()
        evaluator.refuses = {1}
        trainer = Peer(bench, "bulk")
        await trainer.join("trainer")
        bad = await publish(trainer, b"nan", 1)
        good = await publish(trainer, b"fine", 2)
        while (await trainer.status())["weights_version"] != 2:
            pass
        assert bench.store.current == good
        assert not bench.store.has(bad.sha256)
        assert (await trainer.status())["weights_refused"] == 1

    play(scenario)


def test_a_session_that_is_lost_leaves_no_rows_and_no_credits(play: Callable) -> None:
    async def scenario(bench: Bench) -> None:
        evaluator = await bench.evaluator(target_rows=8)
        evaluator.holding = True
        worker, other = Worker(bench, 1), Worker(bench, 2)
        await worker.join("worker")
        await other.join("worker")
        worker.ask(1, 100)
        assert (await worker.status())["queue_rows"] == 100 - 16
        worker.send(Bye())
        worker.send(Ping())
        await worker.receive(Goodbye)
        assert (await other.status())["queue_rows"] == 0
        assert bench.front.leaf.credits.total_in_flight == 0
        evaluator.answer_all()
        evaluator.holding = False
        other.ask(1, 20)
        await other.get_all()

    play(scenario)
