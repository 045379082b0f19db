"""A store whose file has changed since it was written: damaged games are left out, damaged pages are
reported."""

import dataclasses
import logging
import re
import shlex
import struct
import sys
from collections.abc import Callable
from pathlib import Path

import apsw
import numpy as np
import pytest
import torch
import zstandard
from changed_settings import varied
from fake_server import welcome
from in_process import ends
from test_beginnings import refused
from test_service import beside_trainer
from training_runs import games, stored

from azselfplay.games import get_game
from azselfplay.host.exits import Exit, Fatal
from azselfplay.lab.report.games_command import main as azplay_games
from azselfplay.store.copying import Salvaged, salvage
from azselfplay.store.errors import damaged
from azselfplay.store.players import set_quarantine
from azselfplay.store.reader import Range, StoreReader
from azselfplay.store.sqlite import DUPLICATE, PAGE_SIZE, STORED, Store
from bench.random_games import entry, random_game
from protocol.records import sha256, to_bytes
from trainer.config import TrainerConfig
from trainer.training_loop import TrainingLoop

torch.set_num_threads(1)

GAME = get_game("tic_tac_toe")
GAMES = 20
HURT = 7
"""`seq` of the game that is damaged."""

Damage = Callable[[Path], None]


def a_store(folder: Path, count: int = GAMES) -> Path:
    return stored(folder, games(count))


def execute(path: Path, sql: str, *values: object) -> list[tuple[object, ...]]:
    connection = apsw.Connection(str(path))
    try:
        return list(connection.execute(sql, values))
    finally:
        connection.close()


# ---- One game is damaged ----------------------------------------------------------------------------


def flipped_in_the_file(path: Path) -> None:
    """Change bytes of the record in the file."""
    data = execute(path, "SELECT data FROM games WHERE seq = ?", HURT)[0][0]
    middle = len(data) // 2
    worse = data[:middle] + bytes([data[middle] ^ 0xFF]) + data[middle + 1 :]
    path.write_bytes(path.read_bytes().replace(data, worse))  # free space may hold a copy


def replaced(data: bytes, digest: bytes | None = None) -> Damage:
    """Put this record in the place of the damaged game, with its own hash or with another one."""

    def damage(path: Path) -> None:
        sql = "UPDATE games SET data = ?, sha256 = ? WHERE seq = ?"
        execute(path, sql, zstandard.compress(data), digest or sha256(data), HURT)

    return damage


def updated(column: str, value: object) -> Damage:
    def damage(path: Path) -> None:
        execute(path, f"UPDATE games SET {column} = ? WHERE seq = ?", value, HURT)

    return damage


def told_to_be_huge(path: Path) -> None:
    """Let the header of the frame claim four gigabytes, which must not be allocated."""
    data = bytearray(zstandard.ZstdCompressor().compress(bytes(70_000)))
    at = data.index(struct.pack("<I", 70_000))
    data[at : at + 4] = struct.pack("<I", 0xFFFFFFF0)
    execute(path, "UPDATE games SET data = ? WHERE seq = ?", bytes(data), HURT)


def out_of_bounds(path: Path) -> None:
    """Store a record that is intact and has the right hash, but has an action outside of the policy."""
    record = games(GAMES)[HURT - 1]
    actions = record.actions.copy()
    actions[-1] = 5000
    replaced(to_bytes(dataclasses.replace(record, actions=actions)))(path)


DAMAGE: dict[str, tuple[Damage, str]] = {
    "flipped": (flipped_in_the_file, ""),
    "another_game": (
        replaced(to_bytes(random_game(get_game("connect_four"), np.random.default_rng(2)))),
        "game is 'connect_four'",
    ),
    "another_record": (replaced(to_bytes(games(GAMES)[0])), "uid is"),
    "another_hash": (updated("sha256", bytes(32)), "its hash is not"),
    "no_record": (replaced(b"no record"), ""),
    "empty": (updated("data", b""), "cannot be unpacked"),
    "a_number": (updated("data", 5), "cannot be unpacked"),
    "huge": (told_to_be_huge, "cannot be unpacked"),
    "out_of_bounds": (out_of_bounds, "action 5000 is not below 9"),
    "plies": (updated("plies", 4), "but 4 in the table"),
    "plies_as_text": (updated("plies", "x"), "plies is"),
    "outcome": (updated("outcome", 7), "but 7 in the table"),
    "text": (updated("reason", b"\xff\xfe"), "reason is"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_game_is_left_out_named_and_counted(name: str, tmp_path, caplog) -> None:
    """The others fill the window; a damaged game that is read twice counts once."""
    damage, reason = DAMAGE[name]
    path = a_store(tmp_path)
    damage(path)
    Store(path, GAME.name).close()
    config = varied(TrainerConfig(), batch=16, min_positions=1, positions=1000, device="cpu", held_out=0.0)
    training, reader = TrainingLoop(config, GAME, 1, "tiny", tmp_path), StoreReader(path)
    training.fill(reader, GAMES)
    assert training.window.games == GAMES - 1
    assert len(list(reader.records_of(GAME, range(1, GAMES + 1)))) == GAMES - 1
    assert reader.damaged.count == 1
    (line,) = (one.getMessage() for one in caplog.records if one.levelno == logging.ERROR)
    uid = games(GAMES)[HURT - 1].uid.hex()
    assert line.startswith(f"game {HURT} of the store (uid {uid}) is damaged and left out: ")
    assert reason in line
    reader.close()


def test_many_damaged_games_do_not_fill_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = a_store(tmp_path, 150)
    execute(path, "UPDATE games SET sha256 = zeroblob(32)")
    reader = StoreReader(path)
    assert list(reader.records_of(GAME, range(1, 151))) == []
    assert reader.damaged.count == 150
    assert len(caplog.records) == 101
    reader.close()


async def test_the_figures_show_damaged_games(tmp_path: Path) -> None:
    """A trainer starts in spite of them and takes new games."""
    flipped_in_the_file(a_store(tmp_path / "run-1"))
    new = random_game(GAME, np.random.default_rng(77), simulations=20)
    async with beside_trainer(tmp_path) as (server, _):
        server.play(new)
        await server.until(lambda: server.figures.get("games") == GAMES + 1)
        await server.until(lambda: server.figures.get("damaged") == 1)
    assert server.acks[new.uid].status == "stored"


# ---- The file is damaged ----------------------------------------------------------------------------


def overwrite_page(path: Path, name: str, leaf: int = 0) -> None:
    """Overwrite a page of a table or index with garbage: the leaf with this index."""
    leaves = "SELECT pageno FROM dbstat WHERE name = ? AND pagetype = 'leaf' ORDER BY path"
    (page,) = execute(path, leaves, name)[leaf]
    content = bytearray(path.read_bytes())
    content[PAGE_SIZE * (page - 1) : PAGE_SIZE * page] = b"\xab" * PAGE_SIZE
    path.write_bytes(content)


def test_a_damaged_index_ends_the_trainer_with_what_to_do_and_that_mends_it(tmp_path: Path) -> None:
    path = a_store(tmp_path / "run-1")
    overwrite_page(path, "games_totals")
    with ends(Exit.BAD_DATA, "salvage"):
        Store(path, GAME.name)
    refused(Exit.BAD_DATA, "games.db", tmp_path, welcome())
    assert salvage(path, tmp_path / "new.db", GAME, lambda *_: None) == Salvaged(GAMES, 0)
    store = Store(tmp_path / "new.db", GAME.name)
    assert store.totals.games == {"workers": GAMES}
    store.close()


def test_a_run_with_an_archive_gets_its_games_back_from_there(tmp_path: Path) -> None:
    """A salvage would lose games that the archive has."""
    (tmp_path / "trainer.toml").write_text('archive = "/mnt/copy"')
    said = str(damaged(tmp_path / "games.db", apsw.CorruptError("malformed")))
    assert "read back from the archive /mnt/copy" in said
    assert "salvage" not in said


def test_a_file_that_was_cut_off_is_salvaged_up_to_there(tmp_path: Path) -> None:
    path = a_store(tmp_path / "run-1", 300)
    path.write_bytes(path.read_bytes()[:-PAGE_SIZE])
    done = salvage(path, tmp_path / "new.db", GAME, lambda *_: None)
    assert 200 < done.saved <= 300


def test_a_quarantine_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """Without the quarantine, the games of players that cheat are trained on."""
    path = a_store(tmp_path / "run-1")
    set_quarantine(path, "keys/cheat", quarantined=True)
    overwrite_page(path, "quarantine")
    done = salvage(path, tmp_path / "new.db", GAME, lambda *_: None)
    assert done == Salvaged(GAMES, 0, ("quarantine",))


@pytest.mark.parametrize("leaf", [0, 3, -1])
def test_what_the_message_says_saves_the_games_beside_a_damaged_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], leaf: int
) -> None:
    found, folder = games(300), tmp_path / "run-1"
    folder.mkdir()
    path = folder / "games.db"
    (folder / "run.json").write_text('{"format": 5, "game": "tic_tac_toe", "history": 1}', encoding="utf-8")
    store = Store(path, GAME.name)
    store.commit([dataclasses.replace(entry(one), player="keys/lab", is_old=True) for one in found])
    store.close()
    set_quarantine(path, "keys/cheat", quarantined=True)
    overwrite_page(path, "games", leaf)
    message = str(damaged(path, apsw.CorruptError("malformed")))
    command = re.search(r"`(azplay games [^`]*)`", message)
    assert command is not None
    monkeypatch.setattr(sys, "argv", shlex.split(command[1])[1:])
    assert azplay_games() == Exit.FOUND
    said = re.fullmatch(r"(\d+) games saved in .*, (\d+) lost\n", capsys.readouterr().out)
    assert said is not None
    saved, lost = int(said[1]), int(said[2])
    assert saved + lost == 300
    assert 0 < lost < 60
    new = folder / "salvaged.db"
    assert [one.name for one in folder.glob("salvaged.db*")] == ["salvaged.db"]
    reader = StoreReader(new)
    intact = [stored.record(GAME) for stored in reader.rows(Range())]
    assert {one.uid for one in intact} < {one.uid for one in found}
    seqs = [stored.seq for stored in reader.rows(Range())]
    assert [found[seq - 1].uid for seq in seqs] == [one.uid for one in intact]
    assert set(reader.players_between(1, 300).values()) == {"keys/lab"}
    assert reader.old_between(1, 300) == set(seqs)
    assert reader.quarantined() == {"keys/cheat"}
    reader.close()
    again = Store(new, GAME.name)
    missing = [entry(one) for one in found if one.uid not in {other.uid for other in intact}]
    assert again.commit(missing) == [STORED] * lost
    again.close()


def test_games_whose_records_were_dropped_are_salvaged_as_they_are(tmp_path: Path) -> None:
    """They still count, and count once."""
    path, new = tmp_path / "games.db", tmp_path / "new.db"
    store, entries = Store(path, GAME.name, keep=5), [entry(record) for record in games(GAMES)]
    store.commit(entries)
    store.close()
    assert salvage(path, new, GAME, lambda *_: None) == Salvaged(GAMES, 0)
    old, reader, again = StoreReader(path), StoreReader(new), Store(new, GAME.name, keep=5)
    assert list(reader.rows(Range(), with_data=False)) == list(old.rows(Range(), with_data=False))
    assert [one.seq for one in reader.rows(Range())] == list(range(GAMES - 4, GAMES + 1))
    assert reader.was_dropped(GAMES - 5)
    assert again.commit(entries) == [DUPLICATE] * GAMES
    for one in (old, reader, again):
        one.close()


def test_nothing_is_salvaged_over_a_file_or_left_half_done(tmp_path: Path) -> None:
    path, new = a_store(tmp_path / "run-1"), tmp_path / "new.db"
    new.write_bytes(b"precious")
    with ends(Exit.CONFIG, "exists"):
        salvage(path, new, GAME, lambda *_: None)
    assert new.read_bytes() == b"precious"
    with pytest.raises(Fatal, match="there is no folder"):
        salvage(path, tmp_path / "nowhere" / "new.db", GAME, lambda *_: None)
    with pytest.raises(Fatal, match="not a database"):
        salvage(new, tmp_path / "other.db", GAME, lambda *_: None)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["new.db", "run-1"]


def test_games_that_are_only_in_the_write_ahead_log_are_salvaged(tmp_path: Path) -> None:
    """A young store whose trainer was killed is like this."""
    path, new = tmp_path / "games.db", tmp_path / "new.db"
    store = Store(path, GAME.name)
    store.commit([entry(record) for record in games(100)])
    assert salvage(path, new, GAME, lambda *_: None) == Salvaged(100, 0)
    store.close()


def test_a_game_that_is_there_twice_is_salvaged_once(tmp_path: Path) -> None:
    """Its first row was missing in the index of uids when it was sent again."""
    path, new = a_store(tmp_path / "run-1"), tmp_path / "new.db"
    twice(path)
    assert salvage(path, new, GAME, lambda *_: None) == Salvaged(GAMES, 0)


def twice(path: Path) -> None:
    """Make a table of games without the rule that uids are unique, and repeat a game in it."""
    connection = apsw.Connection(str(path))
    connection.execute("CREATE TABLE free AS SELECT * FROM games")
    connection.execute("DROP TABLE games")
    columns = "seq INTEGER PRIMARY KEY, uid, sha256, source, plies, outcome, reason, version_min, version_max"
    connection.execute(f"CREATE TABLE games({columns}, received_at, data)")
    connection.execute("INSERT INTO games SELECT * FROM free")
    connection.execute(f"UPDATE free SET seq = {GAMES + 1}")
    connection.execute("INSERT INTO games SELECT * FROM free LIMIT 1")
    connection.close()


def test_a_number_that_a_lost_game_had_can_be_given_to_another(tmp_path: Path) -> None:
    """The player and the mark of the lost one may still be there."""
    path = a_store(tmp_path / "run-1")
    execute(path, "INSERT INTO players VALUES (1, 'keys/lab')")
    execute(path, "INSERT INTO played_by VALUES (?, 1)", GAMES + 1)
    execute(path, "INSERT INTO old_games VALUES (?)", GAMES + 1)
    store = Store(path, GAME.name)
    new = random_game(GAME, np.random.default_rng(77), simulations=20)
    added = dataclasses.replace(entry(new), player="keys/other", is_old=True)
    assert store.commit([added]) == [STORED]
    store.close()


def test_a_damaged_table_ends_every_reader(tmp_path: Path) -> None:
    """Totals come from an index, so a trainer notices the damage only when it fills its window."""
    path = a_store(tmp_path / "run-1", 300)
    overwrite_page(path, "games")
    reader = StoreReader(path)
    for read in (
        lambda: list(reader.rows(Range())),
        lambda: list(reader.records_of(GAME, range(1, 301))),
        lambda: reader.first_of_newest(10**6, 300),
    ):
        with ends(Exit.BAD_DATA, "damaged"):
            read()
    reader.close()


@pytest.mark.parametrize(
    "opened", [lambda path: Store(path, GAME.name), StoreReader], ids=["store", "reader"]
)
def test_a_file_that_is_no_database_is_said_to_be_none(tmp_path, opened: Callable[[Path], object]) -> None:
    path = tmp_path / "games.db"
    path.write_bytes(b"not a database " * 1000)
    with ends(Exit.BAD_DATA, f"{path} are damaged: .*not a database"):
        opened(path)
