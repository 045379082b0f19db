"""Leaves go out together and every answer comes back to the leaf it belongs to."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest
from client_server import FakeServer, echo_priors, echo_value, with_server

from client.remote_evaluator import LEAVES_PER_MESSAGE, LeafRefused, RemoteEvaluator
from protocol.messages import PROTOCOL_VERSION, BadMessage, Evaluate, Evaluated, Hello, Refused
from runtime.connection import Connection
from search.leaf_batch import Leaf

WORDS = 5


def random_leaf(rng: np.random.Generator) -> Leaf:
    actions = np.sort(rng.choice(4000, size=rng.integers(1, 40), replace=False)).astype(np.uint16)
    return Leaf(rng.integers(0, 2**63, WORDS, dtype=np.uint64), actions)


async def search_like(evaluator: RemoteEvaluator, seed: int, leaves: int) -> None:
    """One coroutine with one leaf at a time in arrays of its own that it reuses."""
    rng = np.random.default_rng(seed)
    words = np.zeros(WORDS, np.uint64)
    for _ in range(leaves):
        drawn = random_leaf(rng)
        words[:] = drawn.features
        priors, value = await evaluator.evaluate(Leaf(words, drawn.actions))
        assert priors.dtype == np.float32
        assert priors.tolist() == echo_priors(drawn.actions).tolist()
        assert value == pytest.approx(echo_value(drawn.features))


NEVER = 1000.0
"""Seconds of patience for an answer: longer than a test takes on any machine."""


async def ask_over_sockets(
    folder: Path, change: object = None, patience: float = NEVER, **welcome: object
) -> FakeServer:
    """200 coroutines of 10 leaves each over a real socket; returns the server for a look at it."""
    servers = []

    async def scenario(context, endpoint, server) -> None:  # type: ignore[no-untyped-def]
        server.words = WORDS
        if callable(change):
            change(server)
        servers.append(server)
        connection = Connection(
            context,
            endpoint,
            Hello(PROTOCOL_VERSION, "client"),
            on_message=lambda message, frames: evaluator.on_evaluated(message, frames),  # type: ignore[arg-type]
            on_joined=lambda welcome: evaluator.joined(welcome),
            on_lost=lambda _: evaluator.lost(),
        )
        evaluator = RemoteEvaluator(connection.send, patience=patience)
        async with asyncio.TaskGroup() as group:
            running = group.create_task(connection.run())
            async with asyncio.TaskGroup() as games:
                for seed in range(200):
                    games.create_task(search_like(evaluator, seed, 10))
            running.cancel()
        evaluator.close()
        assert evaluator.leaves == 2000
        assert evaluator.version == 7

    await with_server(folder, scenario, **welcome)
    return servers[0]


def requests_of(server: FakeServer) -> list[Evaluate]:
    return [message for message in server.seen if isinstance(message, Evaluate)]


def test_every_answer_belongs_to_its_leaf(tmp_path: Path) -> None:
    """200 searches over a real socket; leaves of one turn of the loop travel together."""
    server = asyncio.run(ask_over_sockets(tmp_path))
    rows = [message.rows for message in requests_of(server)]
    assert sum(rows) == 2000
    assert max(rows) <= LEAVES_PER_MESSAGE
    assert len(rows) < 60


def test_answers_in_parts_out_of_order_and_doubled(tmp_path: Path) -> None:
    """The server may split a request over batches and send a part twice."""

    def split(server: FakeServer) -> None:
        def evaluate(peer: bytes, message: Evaluate, frames: list[memoryview]) -> None:
            middle = message.rows // 2
            if middle:
                server.answer_part(peer, message, frames, middle, message.rows)
                server.answer_part(peer, message, frames, middle, message.rows)
            server.answer_part(peer, message, frames, 0, max(middle, 1))
            server.answer_part(peer, message, frames, 0, message.rows)

        server.evaluate = evaluate

    server = asyncio.run(ask_over_sockets(tmp_path, split))
    assert sum(message.rows for message in requests_of(server)) == 2000


def test_lost_answers_are_asked_for_again(tmp_path: Path) -> None:
    """Every third request is dropped the first time; the searches only see a delay."""

    def lossy(server: FakeServer) -> None:
        dropped: set[int] = set()

        def evaluate(peer: bytes, message: Evaluate, frames: list[memoryview]) -> None:
            if message.request % 3 == 0 and message.request not in dropped:
                dropped.add(message.request)
                return
            server.answer(peer, message, frames)

        server.evaluate = evaluate

    server = asyncio.run(ask_over_sockets(tmp_path, lossy, patience=0.05))
    requests = requests_of(server)
    assert len(requests) > len({message.request for message in requests})


def test_leaves_in_flight_stay_within_the_credits(tmp_path: Path) -> None:
    """With 50 credits no more than 50 leaves are unanswered at any time."""
    unanswered: list[int] = []
    held: list[tuple[bytes, Evaluate, list[memoryview]]] = []

    def holding_back(server: FakeServer) -> None:
        def answer_all() -> None:
            while held:
                server.answer(*held.pop())

        def evaluate(peer: bytes, message: Evaluate, frames: list[memoryview]) -> None:
            held.append((peer, message, frames))
            unanswered.append(sum(waiting.rows for _, waiting, _ in held))
            asyncio.get_running_loop().call_later(0.001, answer_all)

        server.evaluate = evaluate

    asyncio.run(ask_over_sockets(tmp_path, holding_back, credits=50))
    assert 40 <= max(unanswered) <= 50


class Wire:
    """A connection that only notes what is sent."""

    def __init__(self) -> None:
        self.sent: list[tuple[Evaluate, tuple[np.ndarray, ...]]] = []
        self.open = True
        self.sent_twice = asyncio.Event()

    def send(self, message: Evaluate, *frames: np.ndarray) -> bool:
        if self.open:
            self.sent.append((message, frames))
            if len(self.sent) == 2:
                self.sent_twice.set()
        return self.open


class _Welcome:
    def __init__(self, credits: int) -> None:  # noqa: A002
        self.credits = credits


async def one_leaf() -> tuple[Wire, RemoteEvaluator, asyncio.Future]:  # type: ignore[type-arg]
    wire = Wire()
    evaluator = RemoteEvaluator(wire.send)
    evaluator.joined(_Welcome(10))  # type: ignore[arg-type]
    future = evaluator.evaluate(random_leaf(np.random.default_rng(1)))
    await asyncio.sleep(0)
    return wire, evaluator, future


def test_a_refused_request_fails_the_searches_that_wait_for_it() -> None:
    """Without retry_after the server will never answer."""

    async def scenario() -> None:
        _, evaluator, future = await one_leaf()
        evaluator.on_refused(Refused("poison", "it ended two evaluators", 1))
        with pytest.raises(LeafRefused, match="two evaluators"):
            await future
        evaluator.close()

    asyncio.run(scenario())


def test_a_refusal_for_now_sends_the_request_again() -> None:
    """`retry_after`, or a code that speaks of the moment, means later."""

    async def scenario() -> None:
        wire, evaluator, future = await one_leaf()
        evaluator.on_refused(Refused("busy", "full", 1, retry_after=0.01))
        async with asyncio.timeout(240):
            await wire.sent_twice.wait()
        assert not future.done()
        assert wire.sent[0][0] == wire.sent[1][0]
        evaluator.close()

    asyncio.run(scenario())


def test_a_message_that_the_socket_did_not_take_is_sent_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its queue was full: long before the patience for an answer is over, although that timer runs."""
    monkeypatch.setattr("client.remote_evaluator.SEND_AGAIN", 0.01)

    async def scenario() -> None:
        wire, evaluator, _ = await one_leaf()
        wire.open = False
        evaluator.evaluate(random_leaf(np.random.default_rng(2)))
        await asyncio.sleep(0)
        assert len(wire.sent) == 1
        wire.open = True
        async with asyncio.timeout(240):
            await wire.sent_twice.wait()
        evaluator.close()

    asyncio.run(scenario())


def test_an_answer_that_is_no_answer_changes_nothing() -> None:
    """NaN or frames of the wrong size are reported, and the right answer is still taken."""

    async def scenario() -> None:
        wire, evaluator, future = await one_leaf()
        total = len(wire.sent[0][1][2])
        priors = np.full(total, 0.25, np.float16).tobytes()
        nan, good = np.full(3, np.nan, np.float32).tobytes(), np.array([0, 0, 1], np.float32).tobytes()
        for frames in ([priors, nan], [priors[2:], good], [priors]):
            with pytest.raises(BadMessage):
                evaluator.on_evaluated(Evaluated(1, 0, 1, 3), [memoryview(frame) for frame in frames])
        assert not future.done()
        evaluator.on_evaluated(Evaluated(1, 0, 1, 3), [memoryview(priors), memoryview(good)])
        assert (await future).value == -1.0
        evaluator.close()

    asyncio.run(scenario())


def test_a_cancelled_search_does_not_disturb_its_neighbours() -> None:
    """Its answer is passed over."""

    async def scenario() -> None:
        wire, evaluator, future = await one_leaf()
        future.cancel()
        total = len(wire.sent[0][1][2])
        frames = [bytes(2 * total), np.array([1, 0, 0], np.float32).tobytes()]
        evaluator.on_evaluated(Evaluated(1, 0, 1, 3), [memoryview(frame) for frame in frames])
        assert evaluator.leaves == 1
        evaluator.close()

    asyncio.run(scenario())
