"""Sessions on the leaves port: how they begin, which ones they replace, and what remains when they end."""

import asyncio

import msgspec
from front_bench import PATIENCE, Bench, Peer, beside_front

from protocol.errors import Code
from protocol.messages import PROTOCOL_VERSION, Bye, EvaluatorReport, Goodbye, Hello, Ping


@beside_front
async def test_a_hello_of_the_wrong_shape_is_answered_for_good(bench: Bench) -> None:
    await bench.evaluator()
    hello = {"type": "hello", "protocol": PROTOCOL_VERSION, "role": "client", "name": "me"}
    for port in ("leaves", "bulk"):
        for change, code in (
            ({"protocol": 2**40, "name": 5}, Code.PROTOCOL_TOO_NEW),
            ({"role": "oracle"}, Code.ROLE_NOT_ALLOWED),
            ({"name": "n" * 121}, Code.BAD_MESSAGE),
        ):
            peer = Peer(bench, port)
            assert peer.channel.send([msgspec.msgpack.encode(hello | change)])
            goodbye = (await peer.receive(Goodbye))[0]
            assert (goodbye.code, goodbye.retry_after) == (code, 0)


@beside_front
async def test_a_hello_that_is_refused_ends_the_session_before_it(bench: Bench) -> None:
    await bench.evaluator()
    peer = await bench.peer("leaves", "client")
    peer.send(Hello(PROTOCOL_VERSION + 1, "client"))
    await peer.receive(Goodbye)
    assert len(bench.front.leaf.port.sessions) == 0
    assert bench.front.leaf.credits.granted == 0


@beside_front
async def test_before_any_evaluator_is_up_players_are_asked_to_come_back(bench: Bench) -> None:
    peer = Peer(bench, "leaves")
    peer.send(Hello(PROTOCOL_VERSION, "worker"))
    goodbye = (await peer.receive(Goodbye))[0]
    assert (goodbye.code, goodbye.retry_after > 0) == (Code.BUSY, True)


@beside_front
async def test_an_evaluator_that_is_unknown_after_a_cut_is_told_so_however_long_its_report_is(
    bench: Bench,
) -> None:
    """The door keeps the first 4 KiB of what a peer without a session sends."""
    evaluator = Peer(bench, "evaluators")
    evaluator.send(EvaluatorReport(1, [1] * 300, [0.001] * 300, [0.001] * 300))
    assert (await evaluator.receive(Goodbye))[0].code == Code.HELLO_REQUIRED


@beside_front
async def test_a_session_that_is_lost_leaves_no_rows_and_no_credits(bench: Bench, monkeypatch) -> None:
    monkeypatch.setattr("server.leaves.SLOTS", 2)  # the front opens its rings at the first `await`
    evaluator = await bench.evaluator(target_rows=8)
    evaluator.holding = True
    worker, other = await bench.worker(1), await bench.worker(2)
    for request in range(5):
        worker.ask(request, 20)
    assert (await worker.status())["queue_rows"] == 100 - 2 * 20
    worker.send(Bye())
    worker.send(Ping())
    await worker.receive(Goodbye)
    assert (await other.status())["queue_rows"] == 0
    assert (bench.in_flight, len(bench.front.leaf.shares)) == (0, 1)
    evaluator.answer_all()
    evaluator.holding = False
    other.ask(1, 20)
    await other.get_all()
    other.channel.close()
    async with asyncio.timeout(PATIENCE):
        while not bench.front.figures.disconnects["hung_up"]:  # noqa: ASYNC110 (the door sees it in a turn)
            await asyncio.sleep(0)
    assert bench.front.figures.faults.count == 0
