"""Leaves through the front: every answer belongs to its request, whatever else happens on the port."""

import asyncio

import msgspec
import numpy as np
import pytest
from front_bench import PATIENCE, Bench, EchoEvaluator, Peer, Worker, beside_front, random_leaves

from protocol.credits import LEAST_GRANT
from protocol.errors import Code
from protocol.messages import Evaluate, Evaluated, Goodbye, Grant, Ping, Pong, PutGame, Refused, encode
from server.shares import SPARE_CREDITS


@beside_front
async def test_every_reply_belongs_to_its_request_with_two_workers_of_different_sizes(bench: Bench) -> None:
    await bench.evaluator(target_rows=32)
    small, large = Worker(bench, 1), Worker(bench, 2)
    welcome = await small.join("client")
    assert (welcome.games_in_flight, welcome.game) == (4 * 32, "tic_tac_toe")
    await large.join("client")
    for request in range(1, 41):
        small.ask(request, 1 + request % 3)
        if request % 10 == 0:
            large.ask(request, 70)
    await small.get_all()
    await large.get_all()
    figures = await small.status()
    assert figures["evals"] == sum(1 + request % 3 for request in range(1, 41)) + 4 * 70
    assert figures["sessions"] == {"workers": 0, "clients": 2, "trainer": 0}
    assert (figures["over_credit"], figures["protocol_errors"]) == (0, 0)


@beside_front
async def test_rows_of_an_evaluator_that_ends_are_evaluated_by_another(bench: Bench) -> None:
    """It had begun to compute some of them, and its successor is told."""
    dying = await bench.evaluator(0, target_rows=8)
    worker = await bench.worker(1)
    dying.holding = True
    worker.ask(1, 20)
    worker.ask(2, 10)
    async with asyncio.timeout(PATIENCE):
        while len(dying.held) < 2:  # noqa: ASYNC110 (a turn of the loop is what is waited for)
            await asyncio.sleep(0.01)
    dying.held[0].begin()
    dying.die()
    other = EchoEvaluator(bench, 1, 8)
    other.holding = True
    async with asyncio.timeout(PATIENCE):
        while len(other.held) < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert sorted((one.rows, one.starts) for one in other.held) == [(10, 0), (20, 1)]
    other.answer_all()
    await worker.get_all()
    assert (await worker.status())["evaluator_restarts"] == 1


@beside_front
async def test_a_refused_row_is_refused_alone_and_the_rows_beside_it_are_answered(bench: Bench) -> None:
    evaluator = await bench.evaluator(target_rows=32)
    honest, odd = await bench.worker(1), await bench.worker(2)
    evaluator.cursed = np.uint64(0xBAD)
    features, counts, actions = random_leaves(odd.rng, 3)
    features[1, 0] = evaluator.cursed
    odd.send(Evaluate(5, 3), features, counts, actions)
    honest.ask(2, 20)
    await honest.get_all()
    parts = [(await odd.receive(Evaluated))[0] for _ in range(2)]
    assert [(part.first, part.rows) for part in parts] == [(0, 1), (2, 1)]
    refused = (await odd.receive(Refused))[0]
    assert (refused.request, refused.code) == (5, Code.POISON)
    assert "row 1" in refused.reason
    assert bench.in_flight == 0


@beside_front
async def test_leaves_that_are_none_are_refused_before_an_evaluator_sees_them(bench: Bench) -> None:
    await bench.evaluator()
    worker = await bench.worker(1)
    features, counts, actions = random_leaves(worker.rng, 4)
    worker.send(Evaluate(5, 3), features, counts, actions)
    worker.send(Evaluate(6, 4), features, counts)
    features[2, -1] = np.float32(np.nan).view(np.uint32)
    worker.send(Evaluate(7, 4), features, counts, actions)
    refused = [(await worker.receive(Refused))[0] for _ in range(3)]
    told = [(one.request, one.code, one.retry_after) for one in refused]
    assert told == [(request, Code.BAD_FRAMES, 0) for request in (5, 6, 7)]
    assert "row 2" in refused[2].reason
    assert "nan" in refused[2].reason
    assert (await worker.status())["batches"] == 0
    assert bench.in_flight == 0


@beside_front
async def test_garbage_on_both_ports_is_counted_and_dropped_while_service_goes_on(bench: Bench) -> None:
    await bench.evaluator()
    worker = await bench.worker(1)
    for port in ("leaves", "bulk"):
        vandal = Peer(bench, port)
        for garbage in ([b""], [b"\xff" * 50], [b"\xdd\xff\xff\xff\xff"], [encode(Ping())[:-1], b"x"] * 9):
            assert vandal.channel.send(garbage)
        vandal.send(Ping())
        assert (await vandal.receive(Goodbye))[0].code == Code.HELLO_REQUIRED
    worker.ask(1, 10)
    await worker.get_all()
    assert (await worker.status())["protocol_errors"] == 8


@beside_front
async def test_a_message_of_the_wrong_shape_is_refused_to_who_has_a_session(bench: Bench) -> None:
    await bench.evaluator()
    worker, stranger = Worker(bench, 1), Peer(bench, "leaves")
    await worker.join("client")
    wrong: list[tuple[dict[str, object], int]] = [
        ({"type": "evaluate", "request": 9, "rows": "two"}, 9),
        ({"type": "evaluate", "request": -9, "rows": 2}, 0),
        ({"type": "no such message"}, 0),
        ({"typ": "ping"}, 0),
    ]
    for entries, request in wrong:
        header = msgspec.msgpack.encode(entries)
        assert worker.channel.send([header])
        refused = (await worker.receive(Refused))[0]
        assert (refused.code, refused.request, refused.retry_after) == (Code.BAD_MESSAGE, request, 0)
        assert stranger.channel.send([header])
        assert (await stranger.receive(Goodbye))[0].code == Code.HELLO_REQUIRED
    worker.send(PutGame(b"u" * 16, b"s" * 32), b"")
    refused = (await worker.receive(Refused))[0]
    assert refused.code == Code.BAD_MESSAGE
    assert refused.reason == "put_game does not belong on the leaves port"
    # A stranger's message is not decoded, so nobody knows whether it had the right shape.
    assert (await worker.status())["protocol_errors"] == len(wrong) + 1


@beside_front
async def test_credits_are_exact(bench: Bench) -> None:
    evaluator = await bench.evaluator()
    evaluator.holding = True
    worker = Worker(bench, 1)
    welcome = await worker.join("client")
    assert welcome.credits >= LEAST_GRANT
    worker.ask(1, welcome.credits)
    worker.send(Evaluate(2, 1), *random_leaves(worker.rng, 1))
    refused = (await worker.receive(Refused))[0]
    assert (refused.request, refused.code) == (2, Code.OVER_CREDIT)
    assert f"1 leaves and {welcome.credits} in flight" in refused.reason
    assert refused.retry_after > 0
    assert (await worker.status())["over_credit"] == 1
    evaluator.answer_all()
    evaluator.holding = False
    await worker.get_all()
    worker.ask(3, welcome.credits)
    await worker.get_all()


@beside_front
async def test_only_leaves_within_the_credits_are_no_talk(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HELLO, questions, refused messages and repeated requests count as talk; the door paces them."""
    talk: list[bytes] = []
    monkeypatch.setattr(bench.front.leaf.port, "charge", talk.append)
    evaluator = await bench.evaluator()
    evaluator.holding = True
    worker = Worker(bench, 1)
    welcome = await worker.join("client")
    worker.send(Ping())
    await worker.receive(Pong)
    counted = len(talk)
    assert counted == 2
    worker.ask(1, welcome.credits)
    worker.send(Evaluate(2, 1), *random_leaves(worker.rng, 1))
    await worker.receive(Refused)
    assert len(talk) == counted + 1
    worker.send(Evaluate(1, 1), *random_leaves(worker.rng, 1))
    await worker.status()
    assert len(talk) == counted + 3


@beside_front
async def test_players_are_told_when_their_share_changes(bench: Bench) -> None:
    await bench.evaluator(target_rows=512)
    one, other = Worker(bench, 1), Worker(bench, 2)
    assert (await one.join("client")).games_in_flight == 4 * 512
    assert (await other.join("client")).games_in_flight == 2 * 512
    bench.front.leaf.tick(1e9)  # so that the front's timer, however late, leaves the next tick to this test
    for worker in (one, other):
        worker.ask(1, 100)
        await worker.get_all()
    bench.front.leaf.tick(2e9)
    assert (await one.receive(Grant))[0] == Grant(2 * 512 + SPARE_CREDITS, 2 * 512)
    one.ask(2, 4 * 512)
    await one.get_all()
    assert (await one.status())["over_credit"] == 0
