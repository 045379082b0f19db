"""Pulling weights: exactly the announced bytes, the newest first, and the old network until then."""

import asyncio
import hashlib
import os
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from azselfplay.host.aio import first_cause
from azselfplay.host.exits import Exit, Fatal
from azselfplay.link import weights_pull
from azselfplay.link.weights_downloader import WeightsDownloader
from azselfplay.link.weights_files import in_cache
from azselfplay.link.weights_pull import (
    PAUSE,
    TIMEOUT,
    TRIES,
    Complete,
    Fetch,
    NotFetched,
    WeightsPull,
    WrongHash,
)
from protocol.errors import Code
from protocol.messages import CHUNK, Chunk, GetChunk, GetWeights, Pong, Refused, WeightsInfo

DATA = bytes(range(256)) * (10 * CHUNK // 256 + 3)
SHA = hashlib.sha256(DATA).digest()


def info(version: int = 1, data: bytes = DATA) -> WeightsInfo:
    return WeightsInfo(version, version, hashlib.sha256(data).digest(), len(data), "tic_tac_toe")


def piece(data: bytes, offset: int) -> bytes:
    return data[offset : offset + CHUNK]


@pytest.fixture
def pull() -> WeightsPull:
    pull = WeightsPull()
    pull.joined(None, 0.0)
    return pull


def feed(
    pull: WeightsPull, asks: list[GetChunk | Complete], data: bytes = DATA, now: float = 1.0
) -> Complete:
    """Answer every request until the file is whole."""
    waiting = list(asks)
    while waiting:
        ask = waiting.pop(0)
        if isinstance(ask, Complete):
            return ask
        waiting += pull.chunk(ask.sha256, ask.offset, piece(data, ask.offset), now)
    raise AssertionError("never complete")


def test_a_window_of_chunks_is_asked_for_and_the_file_comes_out_whole(pull: WeightsPull) -> None:
    asks = pull.offered(info(), 0.0)
    assert asks == [GetChunk(SHA, index * CHUNK) for index in range(8)]
    assert pull.chunk(SHA, 0, piece(DATA, 0), 1.0) == [GetChunk(SHA, 8 * CHUNK)]
    complete = feed(pull, [*asks[1:], GetChunk(SHA, 8 * CHUNK)])
    assert complete.data == DATA
    assert pull.settled(True, 2.0) == []
    assert pull.in_use == info()


@pytest.mark.parametrize("is_good", [False, True])
def test_weights_in_use_or_older_or_refused_are_not_pulled_again(pull: WeightsPull, is_good: bool) -> None:
    """The same announcement may come twice."""
    feed(pull, pull.offered(info(5), 0.0))
    pull.settled(is_good, 1.0)
    assert pull.in_use == (info(5) if is_good else None)
    assert pull.offered(info(5), 2.0) == []
    if is_good:
        assert pull.offered(info(4), 2.0) == []
    assert pull.next_wake() is None
    assert pull.offered(info(6, b"y" * 9), 2.0) != []


@pytest.mark.parametrize("reconnects", [False, True])
def test_newer_weights_are_pulled_after_those_on_their_way(pull: WeightsPull, reconnects: bool) -> None:
    """A slow line would carry no whole file if each announcement began a new one."""
    asks = pull.offered(info(1), 0.0)
    asks = [*asks[1:], *pull.chunk(SHA, 0, piece(DATA, 0), 1.0)]
    newer = info(2, b"n" * 100)
    assert pull.offered(newer, 1.0) == []
    if reconnects:
        assert pull.joined(newer, 1.0) == asks
    assert feed(pull, asks) == Complete(info(1), DATA)
    assert pull.settled(True, 2.0) == [GetChunk(newer.sha256, 0)]


def test_weights_of_a_restored_backup_replace_newer_ones_that_are_on_their_way(pull: WeightsPull) -> None:
    """The server no longer has those, nor what it announced after them."""
    pull.offered(info(5), 0.0)
    pull.offered(info(6, b"m" * 100), 0.0)
    restored = info(4, b"n" * 100)
    assert pull.joined(restored, 1.0) == [GetChunk(restored.sha256, 0)]
    assert pull.chunk(SHA, 0, piece(DATA, 0), 1.0) == []


def test_damaged_bytes_are_thrown_away_and_fetched_again(pull: WeightsPull) -> None:
    """After growing pauses they are given up, and not tried again until there are newer weights."""
    data, now, pauses = b"z" * 50, 0.0, []
    asks = pull.offered(info(1, data), now)
    for _ in range(TRIES):
        (told,) = pull.chunk(asks[0].sha256, 0, b"!" * 50, now)
        assert isinstance(told, WrongHash)
        pauses.append(told.pause)
        now = pull.next_wake() or now
        asks = pull.tick(now)
    assert pauses == [3.0, 6.0, 12.0, 24.0, 48.0, 0.0]
    assert (asks, pull.next_wake()) == ([], None)
    assert pull.offered(info(1, data), now) == []
    assert pull.offered(info(2, data), now) == [GetChunk(hashlib.sha256(data).digest(), 0)]


@pytest.mark.parametrize("announced", ["while they came", "in the pause"])
def test_newer_weights_do_not_wait_out_the_growing_pauses_of_damaged_ones(pull, announced: str) -> None:
    data, newer, now = b"z" * 50, info(2, b"n" * 50), 0.0
    pull.offered(info(1, data), now)
    for _ in range(3):
        pull.chunk(info(1, data).sha256, 0, b"!" * 50, now)
        now = pull.next_wake() or now
        pull.tick(now)
    if announced == "while they came":
        assert pull.offered(newer, now) == []
    told = pull.chunk(info(1, data).sha256, 0, b"!" * 50, now)
    if announced == "while they came":
        assert told == [WrongHash(info(1, data), 4, PAUSE)]
        asks = pull.tick(now + PAUSE)
    else:
        asks = pull.offered(newer, now)
    assert asks == [GetChunk(newer.sha256, 0)]
    assert pull.chunk(newer.sha256, 0, b"!" * 50, now) == [WrongHash(newer, 1, PAUSE)]


def test_weights_of_a_restored_backup_replace_newer_ones(pull: WeightsPull) -> None:
    """The server accepts no games of unknown versions. Later versions count on from the restored one."""
    old, new, next_one = (info(version, DATA[version:]) for version in (40, 50, 41))
    feed(pull, pull.offered(new, 0.0), DATA[50:])
    pull.settled(True, 2.0)
    assert pull.offered(old, 3.0) == [], "a message of before"
    pull.lost()
    feed(pull, pull.joined(old, 10.0), DATA[40:], 10.0)
    pull.settled(True, 11.0)
    assert pull.in_use == old
    assert pull.offered(next_one, 12.0) != []
    same_number = info(41, DATA[7:])
    assert pull.joined(same_number, 13.0) == [GetChunk(same_number.sha256, at * CHUNK) for at in range(8)]


@pytest.mark.parametrize("size", [0, 3 * 1024**3])
def test_absurd_sizes_are_not_pulled(pull: WeightsPull, size: int) -> None:
    """No memory is allocated for a size that no network can have."""
    assert pull.offered(WeightsInfo(1, 1, SHA, size, "tic_tac_toe"), 0.0) == []


def test_chunks_that_were_not_asked_for_or_are_cut_short_are_ignored(pull: WeightsPull) -> None:
    asks = pull.offered(info(), 0.0)
    assert pull.chunk(SHA, 9 * CHUNK, piece(DATA, 9 * CHUNK), 0.0) == []
    assert pull.chunk(SHA, 1, b"x" * CHUNK, 0.0) == []
    assert pull.chunk(SHA, 0, b"short", 0.0) == []
    assert feed(pull, asks).data == DATA


def test_a_file_the_server_dropped_is_asked_for_again_only_after_a_pause(pull: WeightsPull) -> None:
    """Newer weights will have been announced by then."""
    pull.offered(info(), 0.0)
    pull.chunk_refused(0, 1.0)
    assert pull.offered(info(), 2.0) == []
    assert len(pull.tick(4.0)) == 8
    pull.chunk_refused(8 * CHUNK, 5.0)
    assert pull.chunk(SHA, 0, piece(DATA, 0), 5.0) != [], "a late refusal: this chunk was not asked for again"


def test_weights_that_are_offered_again_are_pulled_whatever_became_of_them_before() -> None:
    """A server forgets its verdict on the trainer's weights; a pull that is under way just goes on."""
    pull = WeightsPull()
    for usable in (True, False, True):
        asks = pull.wanted(info(1), 0.0)
        assert pull.chunk(SHA, 0, piece(DATA, 0), 1.0) == [GetChunk(SHA, 8 * CHUNK)]
        pull.lost()
        assert pull.wanted(info(1), 1.0) == [*asks[1:], GetChunk(SHA, 8 * CHUNK)]
        feed(pull, [*asks[1:], GetChunk(SHA, 8 * CHUNK)])
        assert pull.wanted(info(1), 2.0) == []
        assert pull.settled(usable, 2.0) == []


URL = "http://files"


def fetching(about: WeightsInfo) -> WeightsPull:
    """Return a pull that reads from a web server and has the first chunk."""
    pull = WeightsPull()
    assert pull.joined(about, 0.0, URL) == [Fetch(about, URL)]
    assert pull.chunk(about.sha256, 0, piece(DATA, 0), 1.0) == []
    return pull


def test_a_web_server_needs_no_session_and_no_answer_of_the_server_disturbs_it() -> None:
    """The pieces come in order; answers to older requests may still be on their way."""
    pull = fetching(info())
    pull.lost()
    pull.chunk_refused(CHUNK, 1.0)
    pull.chunk_postponed(CHUNK, 1.5)
    assert pull.chunk(SHA, 2 * CHUNK, piece(DATA, 2 * CHUNK), 1.0) == []
    for offset in range(CHUNK, len(DATA), CHUNK):
        assert pull.next_wake() == 1.0 + TIMEOUT
        told = pull.chunk(SHA, offset, piece(DATA, offset), 1.0)
    assert told == [Complete(info(), bytearray(DATA))]


def test_a_part_of_a_chunk_shows_that_a_slow_web_server_still_sends() -> None:
    pull = fetching(info())
    pull.arriving(info(2), 8.0)
    assert pull.next_wake() == 1.0 + TIMEOUT
    pull.arriving(pull._download.info, 9.0)
    assert (pull.tick(1.0 + TIMEOUT), pull.next_wake()) == ([], 9.0 + TIMEOUT)


def test_newer_weights_wait_for_a_web_server_that_has_sent_a_part_of_the_first_chunk() -> None:
    pull = WeightsPull()
    pull.joined(info(), 0.0, URL)
    pull.arriving(pull._download.info, 5.0)
    assert pull.offered(info(2), 6.0) == []


def test_all_chunks_are_asked_for_when_a_web_server_falls_silent_and_newer_weights_try_it_again() -> None:
    """Nothing that the web server sent is kept: it may have been wrong."""
    pull = fetching(info())
    late = 1.0 + TIMEOUT
    chunks = [GetChunk(SHA, at * CHUNK) for at in range(8)]
    assert pull.tick(late) == [NotFetched(info(), "nothing came for 10 s"), *chunks]
    assert pull.not_fetched(info(), "and now it is cut", late) == []
    newer = info(2, b"n" * 9)
    feed(pull, pull.joined(info(), late, URL))
    assert pull.offered(newer, late) == []
    assert pull.settled(True, late) == [Fetch(newer, URL)]


def test_newer_weights_replace_those_that_a_web_server_does_not_send_to_the_end() -> None:
    """The server sends nothing in its place, and the next file comes from the web server again."""
    old, newer = info(), info(2, b"n" * 9)
    pull = fetching(old)
    assert pull.offered(newer, 1.0) == []
    assert pull.not_fetched(old, "it is cut", 2.0) == [NotFetched(old, "it is cut"), Fetch(newer, URL)]


async def test_a_web_server_that_hangs_is_left_for_newer_weights(tmp_path: Path) -> None:
    asked: list[GetChunk] = []
    hung_up, begun = asyncio.Event(), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        version = int((await reader.readuntil(b"\r\n\r\n"))[5:11])
        data = DATA[version:]
        writer.write(f"HTTP/1.1 200 OK\r\nContent-Length: {len(data)}\r\n\r\n".encode())
        if version == 1:
            begun.set()
            await reader.read()
            hung_up.set()
        writer.write(data)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    downloader = WeightsDownloader(in_cache(tmp_path, lambda _path, _info: ""), asked.append)
    port = server.sockets[0].getsockname()[1]
    downloader._pull.joined(None, 0.0, f"http://127.0.0.1:{port}")
    async with server, asyncio.timeout(240), asyncio.TaskGroup() as group:
        running = group.create_task(downloader.run())
        downloader.on_message(info(1, DATA[1:]), [])
        await begun.wait()
        downloader.on_message(info(2, DATA[2:]), [])
        await hung_up.wait()
        await downloader.first()
        running.cancel()
    assert downloader._pull.in_use == info(2, DATA[2:])
    assert not asked


@pytest.mark.parametrize(("stall", "windows"), [(0.0, 0), (TIMEOUT, 2)])
def test_on_a_slow_line_every_chunk_travels_once(stall: float, windows: int, pull: WeightsPull) -> None:
    """Each takes 4 s, so most requests are answered long after the time in which a fast line answers, and the
    announcement is repeated. A stall costs only two windows of second copies."""
    now, travelled, data = stall, 0, DATA * 5
    line = pull.wanted(about := info(1, data), 0.0)
    while isinstance(ask := line.pop(0), GetChunk):
        now, travelled = now + 4.0, travelled + 1
        line += [*pull.tick(now), *pull.wanted(about, now)]
        line += pull.chunk(ask.sha256, ask.offset, piece(data, ask.offset), now)
    assert travelled == len(range(0, len(data), CHUNK)) + 8 * windows


@pytest.mark.parametrize(("is_postponed", "due"), [(False, TIMEOUT), (True, 3.0)])
def test_a_chunk_that_others_overtook_is_asked_for_again_in_time(pull, is_postponed, due) -> None:
    """Answers to later requests do not postpone it."""
    pull.offered(info(), 0.0)
    if is_postponed:
        pull.chunk_postponed(2 * CHUNK, due)
    for offset in (CHUNK, 3 * CHUNK):
        pull.chunk(SHA, offset, piece(DATA, offset), 2.0)
    assert GetChunk(SHA, 2 * CHUNK if is_postponed else 0) in pull.tick(due)
    assert pull._download.patience == TIMEOUT * (1 if is_postponed else 2), (
        "only silence says that the line is slow"
    )


@given(
    chunks=st.integers(1, 20),
    losses=st.lists(st.sampled_from(["message", "connection"]), max_size=20),
    rng=st.randoms(use_true_random=False),
)
def test_any_losses_end_in_the_same_bytes(chunks: int, losses: list[str], rng: random.Random) -> None:
    data = DATA[: chunks * CHUNK - 7]
    pull, now = WeightsPull(), 0.0
    waiting = pull.wanted(info(1, data), now)
    while not (waiting and isinstance(waiting[-1], Complete)):
        now += 0.0 if waiting else TIMEOUT
        if not waiting:
            waiting = pull.tick(now)
            continue
        ask = waiting.pop(rng.randrange(len(waiting)))
        assert isinstance(ask, GetChunk)
        if losses and rng.random() < 0.3:
            if losses.pop() == "connection":
                pull.lost()
                waiting = pull.wanted(info(1, data), now)
            continue
        waiting += pull.chunk(ask.sha256, ask.offset, piece(data, ask.offset), now)
    assert waiting[-1].data == data


async def run_downloader(
    folder: Path, faults: dict[int, str], versions: list[int]
) -> tuple[WeightsDownloader, list[Path]]:
    """Announce `versions` one after the other; loading a version in `faults` fails with that reason."""
    loaded: list[Path] = []
    done = asyncio.Event()
    loop = asyncio.get_running_loop()

    def load(path: Path, info: WeightsInfo) -> str:
        assert hashlib.sha256(path.read_bytes()).digest() == info.sha256
        loaded.append(path)
        loop.call_soon_threadsafe(done.set)
        return faults.get(info.version, "")

    def send(message: GetChunk) -> bool:
        frame = memoryview(piece(data, message.offset))
        loop.call_soon(downloader.on_chunk, Chunk(message.sha256, message.offset), [frame])
        return True

    downloader = WeightsDownloader(in_cache(folder, load), send)
    downloader._pull.joined(None, 0.0)
    async with asyncio.timeout(240), asyncio.TaskGroup() as group:
        running = group.create_task(downloader.run())
        for version in versions:
            data = DATA[version:]
            downloader.on_message(info(version, data), [])
            await done.wait()
            done.clear()
        await downloader.first()
        running.cancel()
    return downloader, loaded


async def test_announced_weights_are_stored_loaded_and_used(tmp_path) -> None:
    downloader, loaded = await run_downloader(tmp_path, {}, [1, 2, 3])
    assert downloader._pull.in_use in (info(2, DATA[2:]), info(3, DATA[3:]))
    assert len(loaded) == 3
    assert {path.suffix for path in tmp_path.iterdir()} == {".safetensors"}


async def test_old_weights_are_deleted_and_what_another_process_is_writing_is_not(tmp_path: Path) -> None:
    """The evaluators of eight GPUs write the same weights to one folder at the same time."""
    old = [tmp_path / name for name in ("a.safetensors", "b.safetensors", "c.refused", "d.7.partial")]
    young = [tmp_path / f"e.safetensors.{pid}.partial" for pid in range(8)]
    folder = tmp_path / "a folder, which cannot be unlinked"
    folder.mkdir()
    for path in (*old, *young):
        path.touch()
    for path in (folder, *old):
        os.utime(path, (1, 1))
    await run_downloader(tmp_path, {}, [1])
    assert [path.exists() for path in (*old, *young)] == [False] * 4 + [True] * 8


async def test_weights_in_use_stay_although_the_clock_was_set_back(tmp_path: Path) -> None:
    for name in ("a.safetensors", "b.safetensors"):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (2**33, 2**33))
    _, (file,) = await run_downloader(tmp_path, {}, [1])
    assert file.exists()


def test_weights_that_another_process_has_refused_already_are_refused_in_the_same_way(tmp_path: Path) -> None:
    def load(path: Path, _: WeightsInfo) -> str:
        path.unlink()  # the other process has renamed it meanwhile
        return "it holds NaN"

    assert asyncio.run(in_cache(tmp_path, load)(info(1, DATA), DATA)) == "it holds NaN"


async def test_weights_that_cannot_be_used_leave_the_old_ones_in_place(tmp_path: Path) -> None:
    downloader, loaded = await run_downloader(tmp_path, {2: "it holds NaN"}, [1, 2])
    assert downloader._pull.in_use == info(1, DATA[1:])
    assert len(loaded) == 2


def test_whoever_waits_for_the_first_weights_is_told_that_they_cannot_be_had(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(weights_pull, "PAUSE", 0.001)

    async def main() -> None:
        loop = asyncio.get_running_loop()

        def send(message: GetChunk) -> bool:
            loop.call_soon(downloader.on_chunk, Chunk(message.sha256, message.offset), [memoryview(b"!" * 9)])
            return True

        downloader = WeightsDownloader(in_cache(tmp_path, lambda _path, _info: ""), send)
        downloader._pull.joined(None, 0.0)
        async with asyncio.TaskGroup() as group:
            running = group.create_task(downloader.run())
            downloader.on_message(info(1, b"weights 1"), [])
            try:
                await downloader.first()
            finally:
                running.cancel()

    with pytest.raises(BaseExceptionGroup) as caught:
        asyncio.run(main())
    fatal = first_cause(caught.value)
    assert isinstance(fatal, Fatal)
    assert fatal.code == Exit.BAD_DATA
    assert "azserver doctor" in str(fatal)


async def test_who_hears_of_newer_weights_in_a_pong_asks_which_they_are(tmp_path: Path) -> None:
    """The announcement was lost. Nobody asks about weights that are known or refused."""
    asked: list[type] = []
    use = in_cache(tmp_path, lambda _path, _info: "")
    downloader = WeightsDownloader(use, lambda message: asked.append(type(message)))
    downloader._pull.joined(None, 0.0)
    downloader.on_message(Pong(3), [])
    downloader.on_message(info(3, b"weights 3"), [])
    downloader.on_message(Pong(3), [])
    downloader._pull._refused = (4, bytes(32))
    downloader.on_message(Pong(4), [])
    assert asked == [GetWeights, GetChunk]


@pytest.mark.parametrize("code", [Code.BUSY, Code.INTERNAL])
async def test_a_chunk_that_the_server_cannot_send_now_is_asked_for_when_it_says(tmp_path, code: str) -> None:
    downloader = WeightsDownloader(in_cache(tmp_path, lambda _path, _info: ""), lambda _: True)
    now = asyncio.get_running_loop().time()
    downloader._pull.joined(info(1, b"weights"), now)
    downloader.on_message(Refused(code, "later", retry_after=3.0), [])
    wake = downloader._pull.next_wake()
    wait = None if wake is None else wake - now
    assert wait is not None
    assert 3.0 <= wait < 10.0
