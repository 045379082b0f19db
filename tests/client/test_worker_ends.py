"""What ends a worker, and the error message it gives."""

import asyncio
import errno
import threading
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec
import pytest
from changed_settings import self_play
from client_server import small_server
from worker_site import Site, run_site

from azselfplay.games import get_game
from azselfplay.host.aio import first_cause
from azselfplay.host.exits import Exit, Fatal
from azselfplay.link.connection import ConnectionSettings
from client.sources import ServerSource
from client.spool import Spool
from client.uploader import Uploader
from client.warm import Run
from client.worker import parse
from protocol.messages import PROTOCOL_VERSION, Bye, Grant, Hello
from protocol.settings import SelfPlaySettings


async def ending_of(folder: Path, prepare: Callable[[Site], Awaitable[None]], **options: object) -> Fatal:
    """Return the Fatal that ends a worker which nobody asks to end."""

    async def wait() -> None:
        async with run_site(folder, **options) as site:
            await prepare(site)
            await asyncio.Event().wait()

    with pytest.raises(BaseExceptionGroup) as caught:
        await wait()
    cause = first_cause(caught.value)
    assert isinstance(cause, Fatal)
    return cause


async def test_an_unknown_game_ends_the_worker(tmp_path: Path) -> None:
    """The server is newer than the client, or it is another program."""

    async def prepare(site: Site) -> None:
        site.close()
        site.serve(game="ludo")

    fatal = await ending_of(tmp_path, prepare)
    assert fatal.code is Exit.PROTOCOL
    assert "'ludo'" in str(fatal)


async def test_other_settings_after_a_restart_of_the_server_end_the_worker(tmp_path, monkeypatch) -> None:
    """The worker has to be started again: games under two settings are not comparable. Kept games stay where
    they are, whatever the new settings are."""
    sessions, joined = [], Uploader.joined
    monkeypatch.setattr(Uploader, "joined", lambda *it, **also: sessions.append(it) or joined(*it, **also))

    async def prepare(site: Site) -> None:
        await site.games.get()
        site.close()
        site.serve(session=2, self_play=asdict(self_play(simulations=9)))

    fatal = await ending_of(tmp_path, prepare, games=1)
    assert fatal.code is Exit.TRY_AGAIN
    assert len(sessions) == 1


@pytest.mark.parametrize("has_room", [True, False])
async def test_a_worker_that_is_stopped_tries_a_disk_that_was_full_once_more(
    tmp_path, monkeypatch, caplog, has_room: bool
) -> None:
    """It does not wait for the next regular attempt; games that are lost after all are counted in the log."""
    monkeypatch.setattr("client.uploader.WRITE_AGAIN", 1e6)
    monkeypatch.setattr("client.worker.LAST_UPLOADS", 60 if has_room else 0.1)
    write, work, held_up = Spool.write, Uploader._work, threading.Event()

    def full(*games: Any) -> None:
        if not (has_room and held_up.is_set()):
            raise OSError(errno.ENOSPC, "No space left on device")
        write(*games)

    async def watched_work(uploader: Uploader) -> None:
        await work(uploader)
        if uploader.why_no_new_games:
            held_up.set()

    monkeypatch.setattr(Spool, "write", full)
    monkeypatch.setattr(Uploader, "_work", watched_work)
    async with run_site(tmp_path, games=1) as site:
        await asyncio.to_thread(held_up.wait)
    assert len(site.bulk.records) == has_room
    assert ("1 finished games are lost" in caplog.text) is not has_room


async def test_leaves_do_not_go_to_another_run(tmp_path: Path) -> None:
    """Its network would play on in games of this run, until the bulk connection ends the worker."""
    async with small_server(tmp_path) as (context, endpoint, server):
        games: list[int] = []
        hello, settings = Hello(PROTOCOL_VERSION, "client", "test"), ConnectionSettings()

        def note() -> None:
            games.append(source.games_to_play(0))

        ours = Run("a", get_game("chess"), SelfPlaySettings(), b"a" * 16)
        source = ServerSource(context, endpoint, hello, settings, note, ours)
        for run, wanted in ((b"b", []), (b"a", [4])):
            source._on_joined(msgspec.structs.replace(server.welcome, run_id=run * 16))
            source._on_leaves_message(Grant(500, 9), [])  # not taken without a session of this run
            assert games == wanted
            assert source.evaluator._requests.credits == (300 if wanted else 0)


def test_flags_that_lack_an_endpoint_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """A client's worker must know where its positions are evaluated; azserver tells its own workers."""
    with pytest.raises(SystemExit) as caught:
        parse(["--bulk", "x", "--spool", "y"])
    assert caught.value.code == 2
    assert "--leaves" in capsys.readouterr().err
    assert parse(["--bulk", "x", "--spool", "y", "--rings", "a", "b"]).rings == [Path("a"), Path("b")]
    assert parse(["--bulk", "x", "--spool", "y", "--role", "worker"]).rings == ()


async def test_leaving_is_said(tmp_path: Path) -> None:
    """BYE ends the session at once, which frees its credits."""
    async with run_site(tmp_path, games=1) as site:
        await site.games.get()
        site.stop.request()
        await site.bulk.until(Bye)
