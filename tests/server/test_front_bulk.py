"""Games and their trainer through the front, with real sockets."""

import asyncio
import time

import msgspec
import pytest
from front_bench import PATIENCE, Bench, Peer, beside_front, publish

from azselfplay.link.connection import Connection
from azselfplay.link.sockets import BULK_LIMIT
from protocol.errors import Code
from protocol.messages import (
    MAX_RECORD,
    PROTOCOL_VERSION,
    Bye,
    GameAck,
    Goodbye,
    Hello,
    PutGame,
    RelayAck,
    RelayGame,
    TrainerStatus,
    Welcome,
)
from protocol.sessions import Session
from server import bulk as bulk_service
from server.bulk import TRAINER_RETRY


@beside_front
async def test_games_reach_the_trainer_and_acknowledgements_their_worker(bench: Bench) -> None:
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


@beside_front
async def test_a_record_that_is_too_long_is_answered_and_the_connection_lives(bench: Bench) -> None:
    await bench.evaluator()
    client = await bench.peer("bulk", "client")
    for size in (MAX_RECORD + 1, BULK_LIMIT):
        client.send(PutGame(b"l" * 16, b"s" * 32), bytes(size))
        ack = (await client.receive(GameAck))[0]
        assert (ack.status, ack.reason.split(":")[0]) == ("rejected", Code.TOO_LONG)
    assert (await client.status())["sessions"]["trainer"] == 0


def hello(name: str, secret: bytes = b"") -> Hello:
    return Hello(PROTOCOL_VERSION, "trainer", name, secret=secret)


@beside_front
async def test_a_trainer_is_known_by_its_secret_and_not_by_its_name(bench: Bench) -> None:
    """A peer that uses its name has to wait, and does not learn the name; the trainer itself continues at
    once."""
    first, again = Peer(bench, "bulk"), Peer(bench, "bulk")
    first.send(hello("host:1", b"s" * 32))
    await first.receive(Welcome)
    for rival in (hello("host:1"), hello("host:1", b"t" * 32), hello("host:1", b"s" * 31), hello("b", b"s")):
        peer = Peer(bench, "bulk")
        peer.send(rival)
        goodbye = (await peer.receive(Goodbye))[0]
        assert (goodbye.code, goodbye.retry_after) == (Code.TRAINER_ALREADY_PRESENT, TRAINER_RETRY)
        assert "host:1" not in goodbye.reason
    again.send(hello("host:1", b"s" * 32))
    await again.receive(Welcome)
    assert (await first.receive(Goodbye))[0].code == Code.TRAINER_ALREADY_PRESENT
    assert (await again.status())["sessions"]["trainer"] == 1


@beside_front
async def test_a_front_that_ends_can_wait_for_the_trainers_last_weights(bench: Bench) -> None:
    """It waits until the trainer has left and an evaluator has loaded what it published."""
    await bench.evaluator()
    trainer, watcher = Peer(bench, "bulk"), Peer(bench, "bulk")
    await trainer.join("trainer")
    left = asyncio.create_task(bench.front.trainer_left())
    info = await publish(trainer, b"last", 2)
    await watcher.join("watcher")
    await watcher.status()
    assert not left.done()
    trainer.send(Bye())
    async with asyncio.timeout(PATIENCE):
        await left
    assert bench.store.current == info


@pytest.mark.parametrize("end", ["bye", "silence", "kill"])
@beside_front
async def test_a_second_trainer_waits_and_takes_over(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    """It takes over when the first has left, when its connection has ended, or when it has been silent for a
    lease although it is still connected."""
    wait = msgspec.structs.replace(bulk_service._ANOTHER_TRAINER, retry_after=0.01)
    monkeypatch.setattr(bulk_service, "_ANOTHER_TRAINER", wait)
    first, refused, joined = Peer(bench, "bulk"), asyncio.Semaphore(0), asyncio.Event()
    await first.join("trainer", "host:1")
    admit = bench.front.bulk.admit_trainer

    def counted(session: Session) -> Goodbye | None:
        if (answer := admit(session)) is not None:
            refused.release()
        return answer

    monkeypatch.setattr(bench.front.bulk, "admit_trainer", counted)
    second = Connection(
        bench.context,
        bench.endpoints["bulk"],
        hello("host:2", b"t" * 32),
        on_message=lambda *_: None,
        on_joined=lambda _: joined.set(),
    )
    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
        task = group.create_task(second.run())
        await refused.acquire()
        await refused.acquire()
        assert not joined.is_set()
        if end == "bye":
            first.send(Bye())
        elif end == "kill":
            first.channel.close()
        else:
            bench.front.bulk.port.expire(time.monotonic() + bench.front.settings.lease)
        await joined.wait()
        task.cancel()
