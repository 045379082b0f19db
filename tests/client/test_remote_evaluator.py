"""Leaves go out together, and every answer comes back to the leaf that it belongs to."""

import asyncio
from pathlib import Path

import numpy as np
import pytest
from client_server import FakeServer, echo_priors, echo_value, with_server
from leaf_by_leaf import Leaf, leaves_of
from ring_parts import SteppedLoop

from azselfplay.link.connection import Connection
from azselfplay.search.evaluator import Evaluations, LeafBatch, evaluate
from client.remote_evaluator import LEAVES_PER_MESSAGE, LeafRefused, RemoteEvaluator
from protocol.messages import PROTOCOL_VERSION, BadMessage, Evaluate, Evaluated, Hello, Refused

WORDS = 5


def random_leaf(rng: np.random.Generator) -> Leaf:
    actions = np.sort(rng.choice(4000, size=rng.integers(1, 40), replace=False)).astype(np.uint16)
    return Leaf(rng.integers(0, 2**63, WORDS, dtype=np.uint64), actions)


def joined(leaves: list[Leaf]) -> LeafBatch:
    counts = np.array([len(leaf.actions) for leaf in leaves], np.uint16)
    features = np.array([leaf.features for leaf in leaves])
    return LeafBatch(features, counts, np.concatenate([leaf.actions for leaf in leaves]))


class Searches:
    """Searches with one leaf each in flight, as in a `SearchPool`: when several are answered in one turn of
    the loop, their next leaves travel together. `done` is set when each search has had `leaves` answers."""

    def __init__(self, evaluator: RemoteEvaluator, searches: int, leaves: int) -> None:
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._evaluator, self._leaves = evaluator, leaves
        self._rngs = [np.random.default_rng(seed) for seed in range(searches)]
        self._answers = [0] * searches
        self._free = list(range(searches))
        self._submit()

    def _submit(self) -> None:
        free, self._free = self._free, []
        batch = joined([random_leaf(self._rngs[search]) for search in free])
        self._evaluator.submit(batch, _Sent(self, free, batch))

    def answered(self, search: int) -> None:
        self._answers[search] += 1
        if self._answers[search] < self._leaves:
            if not self._free:
                asyncio.get_running_loop().call_soon(self._submit)
            self._free.append(search)
        if not self.done.done() and min(self._answers) == self._leaves:
            self.done.set_result(None)


class _Sent:
    """Checks what comes back. A row may be answered more than once, if the answers are the same."""

    def __init__(self, searches: Searches, numbers: list[int], batch: LeafBatch) -> None:
        self._searches, self._numbers = searches, numbers
        self._leaves = list(leaves_of(batch))
        self._missing = set(range(batch.rows))

    def answered(self, first: int, evaluations: Evaluations) -> None:
        values, begin = evaluations.values, 0
        for row, leaf in enumerate(self._leaves[first : first + len(evaluations.wdl)], first):
            priors = evaluations.priors[begin : begin + len(leaf.actions)]
            begin += len(leaf.actions)
            assert priors.tolist() == echo_priors(leaf.actions).tolist()
            assert values[row - first] == pytest.approx(echo_value(leaf.features))
            if row in self._missing:
                self._missing.remove(row)
                self._searches.answered(self._numbers[row])
        assert begin == len(evaluations.priors)

    def failed(self, first: int, rows: int, error: Exception) -> None:  # noqa: ARG002
        if not self._searches.done.done():
            self._searches.done.set_exception(error)


async def ask_over_sockets(folder: Path, change: object = None) -> FakeServer:
    """Run 200 searches of 10 leaves each over a real socket; return the server for inspection."""
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
        evaluator = RemoteEvaluator(connection.send)
        async with asyncio.TaskGroup() as group:
            running = group.create_task(connection.run())
            await Searches(evaluator, 200, 10).done
            running.cancel()
        evaluator.close()
        assert evaluator.leaves == 2000
        assert evaluator.version == 7

    await with_server(folder, scenario)
    return servers[0]


def rows_of(server: FakeServer) -> list[int]:
    """Return the rows of each request. One that was sent again, on a slow machine, counts once."""
    return list({one.request: one.rows for one in server.seen if isinstance(one, Evaluate)}.values())


def test_every_answer_belongs_to_its_leaf(tmp_path: Path) -> None:
    """200 searches ask over a real socket; the leaves of one turn of the loop travel together."""
    server = asyncio.run(ask_over_sockets(tmp_path))
    rows = rows_of(server)
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
    assert sum(rows_of(server)) == 2000


class Wire:
    """A connection that only records what is sent."""

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


def asked(evaluator: RemoteEvaluator, seed: int) -> asyncio.Task[Evaluations]:
    return asyncio.ensure_future(evaluate(evaluator, LeafBatch.of(*random_leaf(np.random.default_rng(seed)))))


async def one_leaf() -> tuple[Wire, RemoteEvaluator, asyncio.Task[Evaluations]]:
    wire = Wire()
    evaluator = RemoteEvaluator(wire.send)
    evaluator.joined(_Welcome(10))  # type: ignore[arg-type]
    task = asked(evaluator, 1)
    await asyncio.sleep(0)
    return wire, evaluator, task


def test_leaves_in_flight_stay_within_the_credits() -> None:
    """With 50 credits, 50 of 200 leaves are sent, and the next 50 when those are answered."""

    async def scenario() -> None:
        wire = Wire()
        evaluator = RemoteEvaluator(wire.send)
        evaluator.joined(_Welcome(50))  # type: ignore[arg-type]
        leaves = [random_leaf(np.random.default_rng(seed)) for seed in range(200)]
        future = asyncio.ensure_future(evaluate(evaluator, joined(leaves)))
        await asyncio.sleep(0)
        for requests in range(1, 5):
            assert [message.rows for message, _ in wire.sent] == [50] * requests
            frames = [bytes(2 * len(wire.sent[-1][1][2])), np.array([1, 0, 0] * 50, np.float32).tobytes()]
            evaluator.on_evaluated(Evaluated(requests, 0, 50, 3), [memoryview(frame) for frame in frames])
        assert len((await future).wdl) == 200
        evaluator.close()

    asyncio.run(scenario())


def test_a_refused_request_fails_the_searches_that_wait_for_it() -> None:
    """Without retry_after the server will never answer that request."""

    async def scenario() -> None:
        _, evaluator, future = await one_leaf()
        evaluator.on_refused(Refused("poison", "it ended two evaluators", 1))
        with pytest.raises(LeafRefused, match="two evaluators"):
            await future
        evaluator.close()

    asyncio.run(scenario())


def test_a_refusal_for_now_sends_the_request_again() -> None:
    """`retry_after`, or a code for a passing condition, means that the request may be sent again later."""

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
    """The socket's queue is full at first. The message goes out long before the patience for an answer ends,
    although that timer runs, too."""
    monkeypatch.setattr("client.remote_evaluator.SEND_AGAIN", 0.01)

    async def scenario() -> None:
        wire, evaluator, _ = await one_leaf()
        wire.open = False
        other = asked(evaluator, 2)
        await asyncio.sleep(0)
        assert len(wire.sent) == 1
        wire.open = True
        async with asyncio.timeout(240):
            await wire.sent_twice.wait()
        assert not other.done()
        evaluator.close()

    asyncio.run(scenario())


def test_a_lost_answer_is_asked_for_again_beside_a_request_that_waits_longer() -> None:
    """A request waits longer each time that it is sent."""
    loop = SteppedLoop()

    def requests_after(seconds: float) -> list[int]:
        loop.now += seconds
        loop.turns(2)
        return [message.request for message, _ in wire.sent]

    wire, evaluator, first = loop.run_until_complete(one_leaf())
    for sent, patience in enumerate((10, 20, 40, 80), 1):
        assert requests_after(patience) == [1] * (sent + 1)

    async def ask_another() -> asyncio.Task[Evaluations]:
        return asked(evaluator, 2)

    second = loop.run_until_complete(ask_another())
    assert requests_after(0) == [1] * 5 + [2]
    assert requests_after(10) == [1] * 5 + [2, 2]
    evaluator.close()
    for task in (first, second):
        task.cancel()
    requests_after(0)
    loop.close()


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
        assert (await future).values.tolist() == [-1.0]
        evaluator.close()

    asyncio.run(scenario())


def test_the_answer_to_a_cancelled_search_is_ignored() -> None:
    async def scenario() -> None:
        wire, evaluator, future = await one_leaf()
        future.cancel()
        await asyncio.sleep(0)
        total = len(wire.sent[0][1][2])
        frames = [bytes(2 * total), np.array([1, 0, 0], np.float32).tobytes()]
        evaluator.on_evaluated(Evaluated(1, 0, 1, 3), [memoryview(frame) for frame in frames])
        assert evaluator.leaves == 1
        evaluator.close()

    asyncio.run(scenario())
