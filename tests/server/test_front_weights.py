"""Weights through the front: stored, loaded by evaluators, told to players and served to them."""

import asyncio
import signal
from pathlib import Path

import pytest
from front_bench import PATIENCE, Bench, EchoEvaluator, Peer, beside_front, publish, running_front
from msgspec import structs
from raw_zmtp import RawPeer
from raw_zmtp import hello as raw_hello

from azselfplay.host.aio import first_cause
from azselfplay.host.exits import Exit, Fatal
from protocol.errors import Code
from protocol.messages import CHUNK, PROTOCOL_VERSION, Chunk, GetChunk, GetWeights, Refused, WeightsInfo
from server import weights
from server.evaluator_watch import WatchTimes


@beside_front
async def test_published_weights_are_loaded_told_and_served(bench: Bench) -> None:
    evaluator = await bench.evaluator()
    trainer, downloader = await bench.peer("bulk", "trainer"), await bench.peer("bulk", "client")
    data = bytes(range(256)) * 3000
    info = await publish(trainer, data, 1)
    assert (await downloader.receive(WeightsInfo))[0] == info
    assert evaluator.loaded == [0, 1]
    downloader.send(GetWeights())
    assert (await downloader.receive(WeightsInfo))[0] == info
    for offset in range(0, len(data), CHUNK):
        downloader.send(GetChunk(info.sha256, offset))
        assert bytes((await downloader.receive(Chunk))[1][0]) == data[offset : offset + CHUNK]
    downloader.send(GetChunk(info.sha256, len(data)))
    assert (await downloader.receive(Chunk))[1][0].nbytes == 0
    downloader.send(GetChunk(b"?" * 32, CHUNK))
    refused = (await downloader.receive(Refused))[0]
    assert (refused.code, refused.request) == (Code.UNKNOWN_WEIGHTS, CHUNK)


@beside_front
async def test_a_chunk_that_many_ask_for_is_read_once(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only chunks at offsets that nobody else uses are read each time; the cache of chunks is bounded."""
    monkeypatch.setattr(weights, "CHUNKS_KEPT", 2)
    await bench.evaluator()
    trainer, pullers = Peer(bench, "bulk"), [Peer(bench, "bulk") for _ in range(3)]
    await trainer.join("trainer")
    data = bytes(range(256)) * 2048 * 3
    info = await publish(trainer, data, 1)
    read = list[int]()
    from_disk = bench.store.chunk

    def chunk(sha256: bytes, offset: int) -> bytes | None:
        read.append(offset)
        return from_disk(sha256, offset)

    monkeypatch.setattr(bench.store, "chunk", chunk)
    for downloader in pullers:
        await downloader.join("client")
    for offset in (0, CHUNK, 5, 2 * CHUNK, 0):
        for downloader in pullers:
            downloader.send(GetChunk(info.sha256, offset))
        for downloader in pullers:
            assert bytes((await downloader.receive(Chunk))[1][0]) == data[offset : offset + CHUNK]
    assert read == [0, CHUNK, 5, 5, 5, 2 * CHUNK, 0]


@beside_front
async def test_a_player_that_could_not_be_told_of_new_weights_is_told_later(bench: Bench) -> None:
    """At first the player reads nothing; later it gets what was queued, and then the newest."""
    await bench.evaluator()
    trainer = await bench.peer("bulk", "trainer")
    raw = await asyncio.to_thread(RawPeer, bench.endpoints["bulk"])
    assert (await asyncio.to_thread(raw.ask, raw_hello(PROTOCOL_VERSION)))["type"] == "welcome"
    (session,) = (one for one in bench.front.bulk.port.sessions.all() if one.role == "client")
    while bench.front.bulk.port.send(session.peer, Chunk(b"c" * 32, 0), bytes(400_000)):
        pass
    first = await publish(trainer, b"first", 1)
    second = await publish(trainer, b"second", 2)
    while (await trainer.status())["weights_version"] != 2:
        pass
    told = []
    while not told or told[-1] != second.version:
        header, _ = await asyncio.to_thread(raw.receive)
        told += [header["version"]] if header["type"] == "weights_info" else []
    assert told in ([first.version, second.version], [second.version])
    raw.close()


@beside_front
async def test_weights_that_no_evaluator_takes_are_thrown_away_and_the_old_stay(bench: Bench) -> None:
    evaluator = await bench.evaluator()
    evaluator.refuses = {1}
    trainer = await bench.peer("bulk", "trainer")
    bad = await publish(trainer, b"nan", 1)
    good = await publish(trainer, b"fine", 2)
    while (await trainer.status())["weights_version"] != 2:
        pass
    assert bench.store.current == good
    assert not bench.store.has(bad)
    assert (await trainer.status())["weights_refused"] == 1


@beside_front
async def test_weights_at_which_evaluators_die_are_refused_and_the_old_stay(bench: Bench) -> None:
    """They may need more memory than there is. A stop, or a disk that fails, is not their fault."""
    evaluator = await bench.evaluator()
    evaluator.answers_loads = False
    trainer = await bench.peer("bulk", "trainer")
    old = bench.store.current
    bad = await publish(trainer, b"too large", 1)
    for code in (-signal.SIGTERM, Exit.DISK, -signal.SIGKILL, Exit.INTERNAL):
        async with asyncio.timeout(PATIENCE):
            await evaluator.got_load.wait()
        assert bench.front.pool.desired == bad
        bench.front.pool.process_ended(0, code)
        evaluator = EchoEvaluator(bench)
        evaluator.answers_loads = False
    assert (bench.front.pool.desired, bench.store.current) == (old, old)
    assert not bench.store.has(bad)
    assert (await trainer.status())["weights_refused"] == 1


@pytest.mark.parametrize(("network", "wanted"), [("tiny", "reload"), ("another", "load")])
@beside_front
async def test_only_the_first_weights_of_a_network_may_take_ten_minutes(
    bench: Bench, network: str, wanted: str
) -> None:
    evaluator = await bench.evaluator()
    evaluator.answers_loads = False
    pool, current = bench.front.pool, bench.store.current
    assert current is not None
    pool.load(structs.replace(current, version=1, architecture=network))
    assert pool.watch.silences(0.0)[0][1].limit == getattr(WatchTimes(), wanted)


async def test_current_weights_that_nobody_can_use_end_the_server_with_a_way_out(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_front(tmp_path) as bench, asyncio.timeout(PATIENCE):
            EchoEvaluator(bench, refuses={0})
            await asyncio.Event().wait()

    with pytest.raises(ExceptionGroup) as caught:
        await scenario()
    fatal = first_cause(caught.value)
    assert isinstance(fatal, Fatal)
    assert "current.json" in str(fatal)
