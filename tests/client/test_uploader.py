"""The uploader writes a game to disk, then sends it, and deletes it from disk when the server has it."""

import asyncio
import errno
import math
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

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


def with_uploader(
    spool: Spool, scenario: Callable[[Uploader, Server], Awaitable[None]], uploads: Uploads | None = None
) -> None:
    """Run `scenario` beside a working uploader that has no session yet."""

    async def main() -> None:
        server = Server()
        uploader = Uploader(spool, server.send, uploads)
        async with asyncio.timeout(240), asyncio.TaskGroup() as group:
            running = group.create_task(uploader.run())
            await uploader.room.wait()
            await scenario(uploader, server)
            running.cancel()

    asyncio.run(main())


def on_disk(folder: Path) -> set[str]:
    return {path.stem for path in folder.glob("*.game")}


def test_a_kept_game_is_on_disk_before_it_is_sent_and_gone_after_the_acknowledgement(tmp_path: Path) -> None:
    """When `keep` returns, the file is in place, with or without a session."""

    async def scenario(uploader: Uploader, server: Server) -> None:
        await uploader.keep(record(1))
        assert on_disk(tmp_path) == {uid(1).hex()}
        assert server.got == []
        uploader.joined()
        await server.expect(1)
        assert on_disk(tmp_path) == {uid(1).hex()}
        uploader.acknowledged(GameAck(uid(1), "stored"))
        await uploader.quiet.wait()
        assert on_disk(tmp_path) == set()
        assert uploader.stored == 1

    with_uploader(Spool(tmp_path), scenario)


def test_games_that_the_connection_does_not_take_are_the_next_and_soon_offered_again(tmp_path: Path) -> None:
    """Its queue holds fewer games than the window."""

    async def scenario(uploader: Uploader, server: Server) -> None:
        await asyncio.gather(*(uploader.keep(record(number)) for number in range(5)))
        server.room = 2
        uploader.joined()
        await server.expect(2)
        assert uploader._uploads.in_flight == 2
        server.room = 5
        assert await server.expect(5) == [uid(number) for number in range(5)]

    with_uploader(Spool(tmp_path), scenario)


def test_no_game_begins_while_the_trainer_is_far_behind(tmp_path: Path) -> None:
    """The uploader says why. When the trainer catches up, games begin again."""
    games = MOST_IN_FLIGHT + MOST_WAITING + 1

    async def scenario(uploader: Uploader, server: Server) -> None:
        uploader.joined()
        await asyncio.gather(*(uploader.keep(record(number)) for number in range(games)))
        first, *_ = await server.expect(MOST_IN_FLIGHT)
        assert not uploader.room.is_set()
        assert "faster than the trainer takes them" in uploader.why_no_new_games
        uploader.acknowledged(GameAck(first, "retry", "the trainer stores no games"))
        assert uploader.why_no_new_games == "the trainer stores no games"
        for stored in server.got[:2]:
            uploader.acknowledged(GameAck(stored, "stored"))
        await uploader.room.wait()
        assert uploader.why_no_new_games == ""

    with_uploader(Spool(tmp_path), scenario)


def test_games_of_an_earlier_run_go_first(tmp_path: Path) -> None:
    """They were found when the spool was opened."""
    earlier = Spool(tmp_path)
    earlier.open()
    earlier.write([(uid(9), to_bytes(record(9)))])

    async def scenario(uploader: Uploader, server: Server) -> None:
        await uploader.keep(record(1))
        uploader.joined()
        assert await server.expect(2) == [uid(9), uid(1)]

    with_uploader(Spool(tmp_path), scenario)


def test_a_game_that_could_not_be_read_once_is_offered_again(tmp_path, monkeypatch) -> None:
    """No descriptor was free, or the disk did not answer: nothing is wrong with the game itself."""
    read, failures = (
        Spool.read,
        [OSError(errno.EMFILE, "Too many open files"), OSError(errno.EIO, "I/O error")],
    )

    def failing_twice(spool: Spool, name: bytes) -> SpooledGame | None:
        if failures:
            raise failures.pop()
        return read(spool, name)

    monkeypatch.setattr(Spool, "read", failing_twice)

    async def scenario(uploader: Uploader, server: Server) -> None:
        await uploader.keep(record(1))
        uploader.joined()
        assert await server.expect(1) == [uid(1)]
        uploader.acknowledged(GameAck(uid(1), "stored"))
        await uploader.quiet.wait()
        assert on_disk(tmp_path) == set()

    with_uploader(Spool(tmp_path), scenario, Uploads(timeout=0.02))
    assert failures == []


def test_a_stored_game_that_the_disk_did_not_let_go_is_deleted_later(tmp_path, monkeypatch) -> None:
    """Otherwise it would fill the spool until the next start."""
    delete, failures = Spool.delete, [OSError(errno.EIO, "I/O error")]

    def failing_once(spool: Spool, name: bytes) -> None:
        if failures:
            raise failures.pop()
        delete(spool, name)

    monkeypatch.setattr(Spool, "delete", failing_once)
    monkeypatch.setattr("client.uploader.WRITE_AGAIN", 0.01)

    async def scenario(uploader: Uploader, server: Server) -> None:
        await uploader.keep(record(1))
        uploader.joined()
        await server.expect(1)
        uploader.acknowledged(GameAck(uid(1), "stored"))
        await uploader.empty.wait()
        assert on_disk(tmp_path) == set()

    with_uploader(Spool(tmp_path), scenario)
    assert failures == []


def test_a_full_spool_holds_new_games_back_until_there_is_room(tmp_path: Path) -> None:
    """Games that finish meanwhile are still accepted."""

    async def scenario(uploader: Uploader, server: Server) -> None:
        for number in (1, 2, 3):
            await uploader.keep(record(number))
        uploader.joined()
        await server.expect(3)
        assert not uploader.room.is_set()
        for number in (1, 2):
            uploader.acknowledged(GameAck(uid(number), "stored"))
        await uploader.room.wait()
        assert on_disk(tmp_path) == {uid(3).hex()}

    with_uploader(Spool(tmp_path, max_games=2), scenario)


def test_a_disk_that_is_full_for_a_while_loses_no_game(tmp_path, monkeypatch, caplog) -> None:
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

    async def scenario(uploader: Uploader, server: Server) -> None:
        await uploader.keep(record(1))
        assert on_disk(tmp_path) == {uid(1).hex()}
        await uploader.room.wait()
        assert "starting no new games: finished games cannot be written to the spool; 0 games" in caplog.text

    with_uploader(spool, scenario)


def test_a_game_that_finishes_while_the_thread_works_is_written_all_the_same(tmp_path, monkeypatch) -> None:
    """The game belongs to the next round, and `keep` does not return before that round."""
    spool = Spool(tmp_path)
    reading, go_on = threading.Event(), threading.Event()
    read = spool.read

    def slow_read(uid: bytes) -> SpooledGame | None:
        reading.set()
        assert go_on.wait(240)
        return read(uid)

    monkeypatch.setattr(spool, "read", slow_read)

    async def scenario(uploader: Uploader, server: Server) -> None:
        uploader.joined()
        await uploader.keep(record(1))
        await asyncio.to_thread(reading.wait, 240)
        second = asyncio.ensure_future(uploader.keep(record(2)))
        await asyncio.sleep(0)
        go_on.set()
        await second
        assert uid(2).hex() in on_disk(tmp_path)
        assert await server.expect(2) == [uid(1), uid(2)]

    with_uploader(spool, scenario)


def test_a_game_that_vanished_from_the_disk_does_not_block_the_others(tmp_path: Path) -> None:
    """Somebody deleted its file by hand."""

    async def scenario(uploader: Uploader, server: Server) -> None:
        await uploader.keep(record(1))
        (tmp_path / f"{uid(1).hex()}.game").unlink()
        await uploader.keep(record(2))
        uploader.joined()
        assert await server.expect(1) == [uid(2)]
        uploader.acknowledged(GameAck(uid(2), "stored"))
        await uploader.quiet.wait()
        assert uploader.empty.is_set()

    with_uploader(Spool(tmp_path), scenario, Uploads(window=1))
