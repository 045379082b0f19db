"""Games refused for settings, weights or run are kept, and offered again when these fit."""

import asyncio
import dataclasses
from pathlib import Path

import msgspec
import numpy as np
import pytest
from client_records import record, uid
from client_server import WELCOME, info_of
from test_uploader import running_uploader

from client.spool import Spool, Terms, claim
from protocol.messages import GameAck, Welcome
from protocol.records import to_bytes

HERE = Terms("here", 5)
ELSEWHERE = Terms("elsewhere", 5)


def kept(folder: Path) -> list[str]:
    return sorted(path.stem for path in (folder / "kept").glob("*.game"))


def filled(folder: Path, *numbers: int, reason: str = "wrong_settings: 9", version: int = 0) -> Spool:
    """Return a spool whose games were all refused under the terms HERE."""
    spool = Spool(folder)
    spool.open()
    for number in numbers:
        game = dataclasses.replace(record(number), versions=np.array([version], np.uint32))
        spool.write([(uid(number), to_bytes(game))])
        spool.keep(uid(number), reason, HERE)
    return spool


@pytest.mark.parametrize("code", ["wrong_settings", "unknown_version", "wrong_run"])
async def test_no_game_refused_for_what_it_was_played_under_is_deleted(tmp_path, monkeypatch, code) -> None:
    """All of them are kept, whatever their number; of games that break the rules, only a few are kept."""
    monkeypatch.setattr("client.spool.MAX_REJECTED", 2)
    async with running_uploader(Spool(tmp_path)) as (uploader, server):
        uploader.joined()
        for number in range(10):
            await uploader.save(record(number))
            await server.expect(number + 1)
            reason = "illegal_action: ply 0" if number % 2 else f"{code}: of another kind"
            uploader.acknowledged(GameAck(uid(number), "rejected", reason))
            await uploader.quiet.wait()
    assert list(tmp_path.glob("*.game")) == []
    left = {path.stem for path in tmp_path.rglob("*.game")}
    assert left == {uid(number).hex() for number in (0, 2, 4, 6, 7, 8, 9)}


def test_a_file_whose_name_is_no_uid_stays_among_the_kept_games(tmp_path: Path) -> None:
    spool = filled(tmp_path, 1)
    (tmp_path / "kept" / "mine.game").touch()
    assert list(spool.take_back(ELSEWHERE)) == [uid(1)]
    assert kept(tmp_path) == ["mine"]


def test_kept_games_count_and_fill_the_spool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """This holds after a restart, too. A worker whose games nobody takes stops and deletes none."""
    monkeypatch.setattr("client.spool.MAX_GAMES", 3)
    spool = filled(tmp_path, 1, 2)
    counts = (0, 2, 2 * len(to_bytes(record(1))), False)
    assert (spool.games, spool.kept, spool.kept_bytes, spool.full) == counts
    spool.write([(uid(3), to_bytes(record(3)))])
    assert spool.full
    again = Spool(tmp_path)
    assert list(again.open()) == [uid(3)]
    assert (again.kept, again.kept_bytes, again.full) == (2, spool.kept_bytes, True)


async def test_a_worker_plays_again_once_the_kept_games_that_fill_its_spool_are_moved_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next refused game makes the folder again."""
    monkeypatch.setattr("client.uploader.WRITE_AGAIN", 0.01)
    monkeypatch.setattr("client.spool.MAX_GAMES", 2)
    async with running_uploader(filled(tmp_path, 1)) as (uploader, server):
        await uploader.save(record(2))
        assert not uploader.room.is_set()
        (tmp_path / "kept").rename(tmp_path / "moved away")
        while not uploader.room.is_set():  # other work does not put the look off
            uploader._wake.set()
            await asyncio.sleep(0)
        uploader.joined(HERE)
        await server.expect(1)
        uploader.acknowledged(GameAck(uid(2), "rejected", "wrong_settings: 9"))
        await uploader.quiet.wait()
        assert kept(tmp_path) == [uid(2).hex()]


def test_they_come_back_under_other_settings_and_not_under_the_same(tmp_path: Path) -> None:
    spool = filled(tmp_path, 1, 2)
    assert list(spool.take_back(Terms("here", 99))) == []
    assert kept(tmp_path) == [uid(1).hex(), uid(2).hex()]
    assert list(spool.take_back(ELSEWHERE)) == [uid(1), uid(2)]
    assert (spool.games, spool.kept, spool.kept_bytes) == (2, 0, 0)
    assert spool.read(uid(1)) is not None
    assert list((tmp_path / "kept").iterdir()) == []


def test_a_game_whose_note_stays_behind_comes_back(tmp_path: Path, monkeypatch) -> None:
    """The disk does not remove the note."""

    def refuse(path: Path, *, missing_ok: bool = False) -> None:
        raise OSError(5, "Input/output error", str(path))

    spool = filled(tmp_path, 1)
    monkeypatch.setattr(Path, "unlink", refuse)
    assert list(spool.take_back(ELSEWHERE)) == [uid(1)]


def test_a_game_whose_note_is_no_text_comes_back(tmp_path: Path) -> None:
    spool = filled(tmp_path, 1)
    (tmp_path / "kept" / f"{uid(1).hex()}.reason").write_bytes(b"\xff")
    assert list(spool.take_back(HERE)) == [uid(1)]


def test_games_of_unknown_weights_come_back_once_the_server_has_come_to_their_version(tmp_path: Path) -> None:
    """A server's version goes back, and rises again, when a backup is restored."""
    spool = filled(tmp_path, 1, reason="unknown_version: 40", version=40)
    assert list(spool.take_back(Terms("here", 39))) == []
    assert list(spool.take_back(Terms("here", 40))) == [uid(1)]


async def test_a_session_under_other_terms_brings_them_to_the_server(tmp_path) -> None:
    """The uploader meets the same server again, which has come back with its earlier settings."""
    refusal = GameAck(uid(1), "rejected", "wrong_settings: simulations is 8, games of this run have 9")
    async with running_uploader(Spool(tmp_path)) as (uploader, server):
        uploader.joined(HERE)
        await uploader.save(record(1))
        await server.expect(1)
        uploader.acknowledged(refusal)
        await uploader.quiet.wait()
        uploader.joined(HERE)
        await uploader.save(record(2))
        assert await server.expect(2) == [uid(1), uid(2)]
        uploader.joined(ELSEWHERE)
        while server.got.count(uid(1)) < 2:
            await server.expect(len(server.got) + 1)
        uploader.acknowledged(GameAck(uid(1), "stored"))
        uploader.acknowledged(GameAck(uid(2), "stored"))
        await uploader.quiet.wait()
    assert list(tmp_path.rglob("*.game")) == []


def test_the_first_worker_takes_over_kept_games_too(tmp_path: Path) -> None:
    filled(tmp_path / "worker-3", 1)
    folder, lock = claim(tmp_path, 0)
    with lock:
        spool = Spool(folder)
        assert (list(spool.open()), spool.kept) == ([], 1)
        assert list(spool.take_back(HERE)) == []
        assert list(spool.take_back(ELSEWHERE)) == [uid(1)]


def test_terms_are_run_and_settings_and_the_current_version() -> None:
    welcome = Welcome(**WELCOME)  # type: ignore[arg-type]
    terms = Terms.of(welcome)
    replaced = [{"self_play": {**welcome.self_play, "simulations": 9}}, {"run_id": b"i" * 16}]
    for change in replaced:
        assert Terms.of(msgspec.structs.replace(welcome, **change)).settings != terms.settings
    shuffled = dict(reversed(welcome.self_play.items()))
    weights = info_of(b"w", 7, bytes(32))
    assert Terms.of(msgspec.structs.replace(welcome, session=2, self_play=shuffled)) == terms
    assert Terms.of(msgspec.structs.replace(welcome, weights=weights)) == Terms(terms.settings, 7)
