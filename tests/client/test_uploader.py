"""The uploader writes a game to disk, then sends it, and deletes it from disk when the server has it."""

import asyncio
import errno
import math
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from client_records import record, uid

from client.spool import Spool, SpooledGame
from client.uploader import MOST_IN_FLIGHT, MOST_WAITING, Uploader, Uploads
from protocol.messages import GameAck, PutGame
from protocol.records import to_bytes


class Server:
    """A server that records what it is sent; `expect` waits for a number of PUT_GAMEs."""

    def __init__(self) -> None:
        self.got: list[bytes] = []
        self.room = math.inf
        """Games that its queue takes."""
        self._more = asyncio.Event()

    def send(self, message: PutGame, data: bytes) -> bool:
        assert data == to_bytes(record(int.from_bytes(message.uid, "big")))
        if len(self.got) >= self.room:
            return False
        self.got.append(message.uid)
        self._more.set()
        return True

    async def expect(self, count: int) -> list[bytes]:
        while len(self.got) < count:
            await self._more.wait()
            self._more.clear()
        return self.got


@asynccontextmanager
async def running_uploader(
    spool: Spool, uploads: Uploads | None = None
) -> AsyncIterator[tuple[Uploader, Server]]:
    """Give a working uploader that has no session yet, and its server."""
    server = Server()
    uploader = Uploader(spool, server.send, uploads)
    async with asyncio.timeout(240), asyncio.TaskGroup() as group:
        running = group.create_task(uploader.run())
        await uploader.room.wait()
        yield uploader, server
        running.cancel()


def on_disk(folder: Path) -> set[str]:
    return {path.stem for path in folder.glob("*.game")}


async def test_a_saved_game_is_on_disk_before_it_is_sent_and_gone_after_the_acknowledgement(tmp_path) -> None:
    """When `save` returns, the file is in place, with or without a session."""
    async with running_uploader(Spool(tmp_path)) as (uploader, server):
        await uploader.save(record(1))
        assert on_disk(tmp_path) == {uid(1).hex()}
        assert server.got == []
        uploader.joined()
        await server.expect(1)
        assert on_disk(tmp_path) == {uid(1).hex()}
        uploader.acknowledged(GameAck(uid(1), "stored"))
        await uploader.quiet.wait()
        assert on_disk(tmp_path) == set()
        assert uploader.stored == 1


async def test_games_that_the_connection_does_not_take_are_the_next_and_soon_offered_again(tmp_path) -> None:
    """Its queue holds fewer games than the window."""
    async with running_uploader(Spool(tmp_path)) as (uploader, server):
        await asyncio.gather(*(uploader.save(record(number)) for number in range(5)))
        server.room = 2
        uploader.joined()
        await server.expect(2)
        assert uploader._uploads.in_flight == 2
        server.room = 5
        assert await server.expect(5) == [uid(number) for number in range(5)]


async def test_no_game_begins_while_the_trainer_is_far_behind(tmp_path: Path) -> None:
    """The uploader says why. When the trainer catches up, games begin again."""
    games = MOST_IN_FLIGHT + MOST_WAITING + 1
    async with running_uploader(Spool(tmp_path)) as (uploader, server):
        uploader.joined()
        await asyncio.gather(*(uploader.save(record(number)) for number in range(games)))
        first, *_ = await server.expect(MOST_IN_FLIGHT)
        assert not uploader.room.is_set()
        assert "faster than the trainer takes them" in uploader.why_no_new_games
        uploader.acknowledged(GameAck(first, "retry", "the trainer stores no games"))
        assert uploader.why_no_new_games == "the trainer stores no games"
        for stored in server.got[:2]:
            uploader.acknowledged(GameAck(stored, "stored"))
        await uploader.room.wait()
        assert uploader.why_no_new_games == ""


async def test_games_of_an_earlier_run_go_first(tmp_path: Path) -> None:
    """They were found when the spool was opened."""
    earlier = Spool(tmp_path)
    earlier.open()
    earlier.write([(uid(9), to_bytes(record(9)))])
    async with running_uploader(Spool(tmp_path)) as (uploader, server):
        await uploader.save(record(1))
        uploader.joined()
        assert await server.expect(2) == [uid(9), uid(1)]


@pytest.mark.parametrize("method", ["read", "delete"])
async def test_a_disk_that_fails_twice_keeps_no_game(tmp_path, monkeypatch, method: str) -> None:
    """Nothing is wrong with a game that could not be read: it is offered again. One that is stored is deleted
    later; otherwise it would fill the spool until the next start."""
    work, failures = getattr(Spool, method), [OSError(one, "failed") for one in (errno.EMFILE, errno.EIO)]

    def failing(spool: Spool, name: bytes) -> SpooledGame | None:
        if failures:
            raise failures.pop()
        return work(spool, name)

    monkeypatch.setattr(Spool, method, failing)
    monkeypatch.setattr("client.uploader.WRITE_AGAIN", 0.01)
    async with running_uploader(Spool(tmp_path), Uploads(timeout=0.02)) as (uploader, server):
        await uploader.save(record(1))
        uploader.joined()
        assert await server.expect(1) == [uid(1)]
        uploader.acknowledged(GameAck(uid(1), "stored"))
        await uploader.empty.wait()
        assert on_disk(tmp_path) == set()
    assert failures == []


async def test_a_full_spool_holds_new_games_back_until_there_is_room(tmp_path, monkeypatch) -> None:
    """Games that finish meanwhile are still accepted."""
    monkeypatch.setattr("client.spool.MAX_GAMES", 2)
    async with running_uploader(Spool(tmp_path)) as (uploader, server):
        for number in (1, 2, 3):
            await uploader.save(record(number))
        uploader.joined()
        await server.expect(3)
        assert not uploader.room.is_set()
        for number in (1, 2):
            uploader.acknowledged(GameAck(uid(number), "stored"))
        await uploader.room.wait()
        assert on_disk(tmp_path) == {uid(3).hex()}


async def test_a_disk_that_is_full_for_a_while_loses_no_game(tmp_path, monkeypatch, caplog) -> None:
    """The game waits in memory, no other one starts, which the log explains, and it is written when there is
    space."""
    monkeypatch.setattr("client.uploader.WRITE_AGAIN", 0.01)
    spool = Spool(tmp_path)
    failures = iter([OSError(28, "No space left on device")] * 2)
    write = spool.write

    def write_with_trouble(records: list[tuple[bytes, bytes]]) -> None:
        for failure in failures:
            raise failure
        write(records)

    monkeypatch.setattr(spool, "write", write_with_trouble)
    async with running_uploader(spool) as (uploader, _):
        await uploader.save(record(1))
        assert on_disk(tmp_path) == {uid(1).hex()}
        await uploader.room.wait()
        assert "starting no new games: finished games cannot be written to the spool; 0 games" in caplog.text


async def test_a_game_that_finishes_while_the_thread_works_is_written_all_the_same(
    tmp_path, monkeypatch
) -> None:
    """The game belongs to the next round, and `save` does not return before that round."""
    spool = Spool(tmp_path)
    reading, go_on = threading.Event(), threading.Event()
    read = spool.read

    def slow_read(uid: bytes) -> SpooledGame | None:
        reading.set()
        assert go_on.wait(240)
        return read(uid)

    monkeypatch.setattr(spool, "read", slow_read)
    async with running_uploader(spool) as (uploader, server):
        uploader.joined()
        await uploader.save(record(1))
        await asyncio.to_thread(reading.wait, 240)
        second = asyncio.ensure_future(uploader.save(record(2)))
        await asyncio.sleep(0)
        go_on.set()
        await second
        assert uid(2).hex() in on_disk(tmp_path)
        assert await server.expect(2) == [uid(1), uid(2)]


async def test_a_game_that_vanished_from_the_disk_does_not_block_the_others(tmp_path: Path) -> None:
    """Somebody deleted its file by hand."""
    async with running_uploader(Spool(tmp_path), Uploads(window=1)) as (uploader, server):
        await uploader.save(record(1))
        (tmp_path / f"{uid(1).hex()}.game").unlink()
        await uploader.save(record(2))
        uploader.joined()
        assert await server.expect(1) == [uid(2)]
        uploader.acknowledged(GameAck(uid(2), "stored"))
        await uploader.quiet.wait()
        assert uploader.empty.is_set()
