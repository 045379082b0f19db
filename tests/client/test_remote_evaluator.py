"""Leaves go out together, and every answer comes back to the leaf that it belongs to."""

import asyncio
from dataclasses import replace

import numpy as np
import pytest
from client_server import echo_priors, echo_value
from leaf_by_leaf import Leaf
from ring_parts import SteppedLoop

from azselfplay.games import get_game
from azselfplay.link.sockets import LEAVES_LIMIT
from azselfplay.search.evaluator import Evaluations, evaluate
from client.remote_evaluator import LEAVES_PER_MESSAGE, LeafRefused, RemoteEvaluator, rows_per_message
from protocol.frames import LeafBatch
from protocol.messages import BadMessage, Evaluate, Evaluated, Refused

WORDS = 5


def random_leaf(rng: np.random.Generator) -> Leaf:
    actions = np.sort(rng.choice(4000, size=rng.integers(1, 40), replace=False)).astype(np.uint16)
    return Leaf(rng.integers(0, 2**63, WORDS, dtype=np.uint64), actions)


def joined(leaves: list[Leaf]) -> LeafBatch:
    counts = np.array([len(leaf.actions) for leaf in leaves], np.uint16)
    features = np.array([leaf.features for leaf in leaves])
    return LeafBatch(features, counts, np.concatenate([leaf.actions for leaf in leaves]))


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


async def test_leaves_that_waited_travel_together_and_each_gets_its_own_answer() -> None:
    """The server may split a request over batches, and send a part twice."""
    wire = Wire()
    evaluator = RemoteEvaluator(wire.send, most_rows=120)
    rngs = [np.random.default_rng(seed) for seed in range(200)]
    batches = [joined([random_leaf(rng) for rng in some]) for some in (rngs[:90], rngs[90:])]
    futures = [asyncio.ensure_future(evaluate(evaluator, batch)) for batch in batches]
    await asyncio.sleep(0)
    evaluator.joined(_Welcome(300))  # type: ignore[arg-type]
    assert [message.rows for message, _ in wire.sent] == [120, 80]
    for message, (features, counts, actions) in wire.sent[::-1]:
        ends, rows = [0, *np.cumsum(counts, dtype=np.int64).tolist()], message.rows
        for first, end in ((rows // 2, rows), (rows // 2, rows), (0, rows // 2), (0, rows)):
            values = np.array([echo_value(row) for row in features[first:end]], np.float32)
            wdl = np.stack([values, 1 - values, 0 * values], axis=1)
            answer = echo_priors(actions[ends[first] : ends[end]]), wdl
            frames = [memoryview(part.tobytes()) for part in answer]
            evaluator.on_evaluated(Evaluated(message.request, first, end - first, 7), frames)
    for batch, future in zip(batches, futures, strict=True):
        found = await future
        assert found.priors.tolist() == echo_priors(batch.actions).tolist()
        assert found.values == pytest.approx([echo_value(row) for row in batch.features])
    assert (evaluator.leaves, evaluator.version) == (200, 7)
    evaluator.close()


async def test_leaves_in_flight_stay_within_the_credits() -> None:
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


def test_large_leaves_travel_in_messages_that_both_sides_accept() -> None:
    """A frame above the limit cuts the connection, and the same request would be sent again for ever."""
    chess = get_game("chess")
    for game in (replace(chess, planes_per_position=800), replace(chess, max_legal=17_000)):
        rows = rows_per_message(game, history=8)
        assert 0 < rows * max(8 * game.feature_words(8), 2 * game.max_legal) <= LEAVES_LIMIT
    assert rows_per_message(chess, history=8) == LEAVES_PER_MESSAGE


async def test_a_refused_request_fails_the_searches_that_wait_for_it() -> None:
    """Without retry_after the server will never answer that request."""
    _, evaluator, future = await one_leaf()
    evaluator.on_refused(Refused("poison", "it ended two evaluators", 1))
    with pytest.raises(LeafRefused, match="two evaluators"):
        await future
    evaluator.close()


async def test_a_refusal_for_now_sends_the_request_again() -> None:
    """`retry_after`, or a code for a passing condition, means that the request may be sent again later."""
    wire, evaluator, future = await one_leaf()
    evaluator.on_refused(Refused("busy", "full", 1, retry_after=0.01))
    async with asyncio.timeout(240):
        await wire.sent_twice.wait()
    assert not future.done()
    assert wire.sent[0][0] == wire.sent[1][0]
    evaluator.close()


async def test_a_message_that_the_socket_did_not_take_is_sent_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """The socket's queue is full at first. The message goes out long before the patience for an answer ends,
    although that timer runs, too."""
    monkeypatch.setattr("client.remote_evaluator.SEND_AGAIN", 0.01)
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


async def test_an_answer_that_is_no_answer_changes_nothing() -> None:
    """NaN or frames of the wrong size are reported, and the right answer is still taken."""
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


async def test_the_answer_to_a_cancelled_search_is_ignored() -> None:
    wire, evaluator, future = await one_leaf()
    future.cancel()
    await asyncio.sleep(0)
    total = len(wire.sent[0][1][2])
    frames = [bytes(2 * total), np.array([1, 0, 0], np.float32).tobytes()]
    evaluator.on_evaluated(Evaluated(1, 0, 1, 3), [memoryview(frame) for frame in frames])
    assert evaluator.leaves == 1
    evaluator.close()
