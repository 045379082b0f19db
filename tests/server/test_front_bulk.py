"""Games and weights through the front, with real sockets."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import zmq
from front_bench import (
    GAME,
    PATIENCE,
    Bench,
    EchoEvaluator,
    Peer,
    Play,
    play_beside_front,
    publish,
)

from protocol.errors import Code
from protocol.messages import (
    CHUNK,
    MAX_RECORD,
    PROTOCOL_VERSION,
    Chunk,
    GameAck,
    GetChunk,
    GetWeights,
    Goodbye,
    Hello,
    Pong,
    PutGame,
    PutWeights,
    Refused,
    RelayAck,
    RelayGame,
    TrainerStatus,
    WeightsInfo,
    decode,
    encode,
)
from runtime.aio import first_cause
from runtime.exits import Fatal
from runtime.sockets import BULK_LIMIT, Channel, subscriber
from server.port import peer_of


def test_games_reach_the_trainer_and_acknowledgements_their_worker(play: Play) -> None:
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


def test_a_record_that_is_too_long_is_answered_and_the_connection_lives(play: Play) -> None:
    async def scenario(bench: Bench) -> None:
        await bench.evaluator()
        client = Peer(bench, "bulk")
        await client.join("client")
        for size in (MAX_RECORD + 1, BULK_LIMIT):
            client.send(PutGame(b"l" * 16, b"s" * 32), bytes(size))
            ack = (await client.receive(GameAck))[0]
            assert (ack.status, ack.reason.split(":")[0]) == ("rejected", Code.TOO_LONG)
        assert (await client.status())["sessions"]["trainer"] == 0

    play(scenario)


def test_a_second_trainer_is_refused_and_a_restarted_one_takes_over(play: Play) -> None:
    async def scenario(bench: Bench) -> None:
        first, second, restarted = (Peer(bench, "bulk") for _ in range(3))
        await first.join("trainer", "host/1")
        second.send(Hello(PROTOCOL_VERSION, "trainer", "other/1"))
        assert (await second.receive(Goodbye))[0].code == Code.TRAINER_ALREADY_PRESENT
        await first.receive(Pong)
        await restarted.join("trainer", "host/1")
        assert (await first.receive(Goodbye))[0].code == Code.TRAINER_ALREADY_PRESENT
        assert (await restarted.status())["sessions"]["trainer"] == 1

    play(scenario)


def is_gone(socket: zmq.Socket[bytes], peer: bytes) -> bool:
    """libzmq tells nobody when a peer is gone; a queue that is full only looks like it."""
    try:
        socket.send_multipart([peer, encode(Pong())], zmq.DONTWAIT)
    except zmq.ZMQError as error:
        return error.errno == zmq.EHOSTUNREACH
    return False


def test_a_trainer_that_was_killed_makes_room_for_the_next_before_its_lease_is_over(play: Play) -> None:
    async def scenario(bench: Bench) -> None:
        killed, next_one = Peer(bench, "bulk"), Peer(bench, "bulk")
        await killed.join("trainer", "host:1")
        killed.channel.close()
        session = bench.front.bulk.trainer
        assert session is not None
        async with asyncio.timeout(PATIENCE):
            while not is_gone(bench.front.bulk.port.channel.socket, peer_of(session)):  # noqa: ASYNC110
                await asyncio.sleep(0)
        await next_one.join("trainer", "host:2")
        assert (await next_one.status())["sessions"]["trainer"] == 1

    play(scenario)


def test_a_worker_may_not_publish_weights(play: Play) -> None:
    async def scenario(bench: Bench) -> None:
        await bench.evaluator()
        worker = Peer(bench, "bulk")
        await worker.join("worker")
        worker.send(PutWeights(WeightsInfo(9, 0, b"x" * 32, 10, GAME.name)))
        assert (await worker.receive(Refused))[0].code == Code.ROLE_NOT_ALLOWED

    play(scenario)


def test_published_weights_are_loaded_announced_and_served(play: Play) -> None:
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
        puller.send(GetChunk(info.sha256, len(data)))
        assert (await puller.receive(Chunk))[1][0].nbytes == 0
        puller.send(GetChunk(b"?" * 32, CHUNK))
        refused = (await puller.receive(Refused))[0]
        assert (refused.code, refused.request) == (Code.UNKNOWN_WEIGHTS, CHUNK)

    play(scenario)


def test_weights_that_no_evaluator_takes_are_thrown_away_and_the_old_stay(play: Play) -> None:
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


def test_current_weights_that_nobody_can_use_end_the_server_with_a_way_out(tmp_path: Path) -> None:
    async def scenario(bench: Bench) -> None:
        EchoEvaluator(bench, refuses={0})
        async with asyncio.timeout(PATIENCE):
            await asyncio.Event().wait()

    with pytest.raises(ExceptionGroup) as caught:
        asyncio.run(play_beside_front(tmp_path, scenario))
    fatal = first_cause(caught.value)
    assert isinstance(fatal, Fatal)
    assert "current.json" in str(fatal)
