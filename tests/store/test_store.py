"""Every acknowledged game is in the store, once, and stays there."""

import hashlib
import os
import random
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import apsw
import pytest
from in_process import ends

from azselfplay.host.exits import Exit, Fatal
from azselfplay.store import reader as reading
from azselfplay.store import sqlite
from azselfplay.store.copying import check_file, copy_games
from azselfplay.store.reader import Range, StoreReader
from azselfplay.store.sqlite import (
    CONFLICT,
    DUPLICATE,
    IMPORTED,
    REJECTED,
    RETRY,
    STORED,
    Entry,
    Reject,
    Store,
    cache_kib,
    connect,
)


def entry(
    number: int, data: bytes = b"", source: str = "workers", plies: int = 10, version: int = 0
) -> Entry:
    data = data or b"game %d" % number
    uid, sha256 = number.to_bytes(16, "big"), hashlib.sha256(data).digest()
    return Entry(uid, sha256, source, plies, 1, "line", version, version + 1, data)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "games.db", "g")


def test_a_commit_that_has_returned_is_on_the_disk(store: Store) -> None:
    """With these settings SQLite syncs its log before COMMIT returns."""
    pragmas = [store._connection.execute(f"PRAGMA {one}") for one in ("journal_mode", "synchronous")]
    assert [one.fetchone()[0] for one in pragmas] == ["wal", 2]


def test_the_oldest_and_the_newest_game_are_found_without_a_scan(store: Store, tmp_path: Path) -> None:
    """Each reader asks for them, also in a store of millions of games."""
    reader = StoreReader(tmp_path / "games.db")
    assert reader.span() == (0, 0)
    store.commit([entry(n) for n in range(3)])
    assert reader.span() == (1, 3)
    plan = [str(row[-1]) for row in reader.query(f"EXPLAIN QUERY PLAN {reading.SPAN}")]
    assert [line for line in plan if "games" in line] == ["SEARCH games"] * 2


def test_same_game_counts_once(store: Store) -> None:
    assert store.commit([entry(1), entry(1)]) == [STORED, DUPLICATE]
    assert store.commit([entry(1)]) == [DUPLICATE]
    assert store.totals.games["workers"] == 1


def test_other_game_under_the_same_uid_is_a_conflict(store: Store, tmp_path: Path) -> None:
    store.commit([entry(1)])
    assert store.commit([entry(1, b"another")]) == [CONFLICT]
    reader = StoreReader(tmp_path / "games.db")
    assert [one.unpacked() for one in reader.rows(Range())] == [b"game 1"]
    kept = reader._connection.execute("SELECT code FROM rejects").fetchall()
    assert kept == [(CONFLICT,)]


def test_totals_survive_a_restart(store: Store, tmp_path: Path) -> None:
    store.commit([entry(1, version=3), entry(2, source="clients", plies=7, version=3)])
    store.commit([entry(3, version=8)], [Reject(bytes(16), bytes(32), "clients", "bad", "why", b"")])
    before = store.totals
    store.close()
    after = Store(tmp_path / "games.db", "g").totals
    assert after == before
    assert after.games == {"workers": 2, "clients": 1}
    assert after.versions == {"workers": {3, 4, 8, 9}, "clients": {3, 4}}
    assert after.positions == 27


def test_window_is_filled_from_the_newest_games(store: Store, tmp_path: Path) -> None:
    store.commit([entry(n) for n in range(1, 11)])
    reader = StoreReader(tmp_path / "games.db")
    assert reader.first_of_newest(positions=25, last=10) == 8
    assert reader.first_of_newest(positions=20, last=5) == 4
    assert reader.first_of_newest(positions=1000, last=10) == 1


def test_the_cache_has_room_for_the_index_of_uids_and_grows_with_it(store: Store) -> None:
    """An entry has 27 bytes, in pages of which random uids leave 31 % empty; 10 million games take about 390
    MB. A process that has little memory keeps most of it for other things."""

    def in_force() -> int:
        return -int(store._connection.execute("PRAGMA cache_size").fetchone()[0])

    assert in_force() == cache_kib(1_000_000, store._memory)
    store._memory = 2.0**33
    store.totals.games["clients"] = 10_000_000
    store.commit([entry(1)])
    assert in_force() == cache_kib(11_000_001, 2.0**33) > 11_000_001 * 27 / 0.69 / 1024
    assert in_force() < 600_000
    assert cache_kib(82_000_000, 2.0**31) == 2**18


def test_only_the_newest_games_keep_their_records_and_all_keep_their_rows(store: Store, tmp_path) -> None:
    """Also after a restart. Every game still counts, and counts once."""
    path = tmp_path / "games.db"
    store.commit([entry(n) for n in range(4)])
    store.close()
    keeping, reader = Store(path, "g", keep=3), StoreReader(path)
    assert keeping.commit([entry(4), entry(0)]) == [STORED, DUPLICATE]
    assert [one.unpacked() for one in reader.rows(Range())] == [b"game 2", b"game 3", b"game 4"]
    assert [one.seq for one in reader.rows(Range(), with_data=False)] == [1, 2, 3, 4, 5]
    with pytest.raises(Fatal, match=r"record of game 2 .* keeps only the newest games \(keep_games\)"):
        reader.row(2)
    keeping.close()
    assert Store(path, "g", keep=3).totals.games == {"workers": 5}


def test_games_imported_in_mid_run_take_no_place_of_self_play(tmp_path: Path) -> None:
    path = tmp_path / "games.db"
    Store(path, "g").commit([entry(n) for n in range(3)])
    Store(path, "g").commit([entry(n, source=IMPORTED) for n in range(3, 7)])
    store = Store(path, "g", keep=4)
    store.commit([entry(7)])
    reader = StoreReader(path)
    assert reader.imported(100) == ([4, 5, 6, 7], 40)
    assert [one.seq for one in reader.rows(Range())] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert [one.seq for one in reader.rows(Range(2, 4))] == [2, 3, 4]
    store.commit([entry(n) for n in range(8, 12)])
    assert [one.seq for one in StoreReader(path).rows(Range())] == [4, 5, 6, 7, 9, 10, 11, 12]
    Store(path, "g").commit([entry(12, source=IMPORTED)])
    assert (store.with_records, Store(path, "g", keep=4).with_records) == (8, 9)


def test_a_store_that_keeps_the_newest_games_does_not_grow(tmp_path: Path, monkeypatch) -> None:
    """Many old records are dropped in several commits."""
    monkeypatch.setattr(sqlite, "DROPPED_AT_ONCE", 20)
    monkeypatch.setattr(sqlite, "WAL_BYTES", 0)
    path, sizes = tmp_path / "games.db", []
    for keep, first in ((0, 0), (50, 200), (50, 400), (50, 600)):
        store = Store(path, "g", keep)
        for begin in range(first, first + 200, 10):
            store.commit([entry(n, random.Random(n).randbytes(10_000)) for n in range(begin, begin + 10)])
        store.close()
        sizes.append(path.stat().st_size)
    assert sizes[3] <= 1.05 * sizes[1] <= 1.05 * 1.3 * sizes[0]
    assert len(list(StoreReader(path).rows(Range()))) == 50


def test_a_commit_of_many_games_drops_more_than_it_adds(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(sqlite, "DROPPED_AT_ONCE", 5)
    path = tmp_path / "games.db"
    store = Store(path, "g", keep=10)
    for begin in range(0, 100, 20):
        store.commit([entry(n) for n in range(begin, begin + 20)])
    assert len(list(StoreReader(path).rows(Range()))) == 10


def test_store_of_another_game_is_refused(store: Store, tmp_path: Path) -> None:
    store.close()
    with ends(Exit.BAD_DATA):
        Store(tmp_path / "games.db", "h")


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ("DELETE FROM meta WHERE key = 'record_format'", "4 or older"),
        ("UPDATE meta SET value = '6' WHERE key = 'record_format'", "6"),
    ],
)
@pytest.mark.parametrize("open_store", [lambda path: Store(path, "g"), StoreReader], ids=["store", "reader"])
def test_a_store_of_another_record_format_is_refused_by_name(
    store: Store, tmp_path: Path, open_store: Callable[[Path], object], change: str, found: str
) -> None:
    store.close()
    path = tmp_path / "games.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(change)
    with ends(Exit.BAD_DATA, f"games.db holds games of record format {found}; .* format 5"):
        open_store(path)


def test_full_disk_sends_games_back(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    """When the file cannot grow, nothing is half stored, the log says so, and it works again later."""
    pages = store._connection.execute("PRAGMA page_count").fetchone()[0]
    store._connection.execute(f"PRAGMA max_page_count={pages}")
    big = entry(1, os.urandom(100_000))
    assert store.commit([entry(2), big]) == [RETRY, RETRY]
    assert "NOT being stored" in caplog.text
    store._connection.execute("PRAGMA max_page_count=1000000")
    assert store.commit([entry(2), big]) == [STORED, STORED]
    assert store.totals.positions == 20


def test_a_foreign_write_lock_sends_games_back_until_it_ends(store: Store, tmp_path: Path) -> None:
    """A forgotten `sqlite3` shell may hold such a lock."""
    store._connection.set_busy_timeout(1)
    with closing(connect(tmp_path / "games.db", read_only=False)) as shell:
        shell.execute("BEGIN IMMEDIATE")
        assert store.commit([entry(1)]) == [RETRY]
        shell.execute("ROLLBACK")
    assert store.commit([entry(1)]) == [STORED]


WAIT = {
    "AbortError", "BusyError", "CantOpenError", "FullError", "IOError", "InterruptError", "LockedError",
    "NoLFSError", "NoMemError", "PermissionsError", "ProtocolError", "ReadOnlyError", "SchemaChangeError",
}  # fmt: skip
"""Errors of SQLite that leave the file unchanged."""
ERRORS = [
    getattr(apsw, name)
    for name in dir(apsw)
    if isinstance(getattr(apsw, name), type) and issubclass(getattr(apsw, name), apsw.Error)
]


class Failing:
    """A connection on which writing a game fails."""

    def __init__(self, connection: apsw.Connection, error: BaseException) -> None:
        self._connection, self._error = connection, error

    def execute(self, sql: str, *bindings: object) -> object:
        if "INTO games" in sql:
            raise self._error
        return self._connection.execute(sql, *bindings)

    def __getattr__(self, name: str) -> object:
        return getattr(self._connection, name)


@pytest.mark.parametrize("kind", [*ERRORS, MemoryError], ids=lambda kind: kind.__name__)
def test_only_damage_ends_the_trainer(store: Store, kind: type[Exception]) -> None:
    """Other errors send the games back, refused ones included, and the next commit stores them."""
    whole = store._connection
    store._connection = Failing(whole, kind("told"))
    batch = [entry(1)], [Reject(bytes(16), bytes(32), "clients", "bad_hash", "why", b"data")]
    if kind.__name__ in WAIT or kind is MemoryError:
        assert store.commit(*batch) == [RETRY, RETRY]
        assert (store.last_seq, store.totals.positions) == (0, 0)
        store._connection = whole
        assert store.commit(*batch) == [STORED, REJECTED]
    else:
        with ends(Exit.BAD_DATA, r"damaged: .*told"):
            store.commit(*batch)


def test_a_store_that_cannot_be_opened_now_is_not_called_damaged(tmp_path: Path) -> None:
    """The process may simply be started again: a link to a disk that is away gives SQLITE_CANTOPEN."""
    (tmp_path / "games.db").symlink_to(tmp_path / "away" / "games.db")
    with ends(Exit.DISK, "at the moment"):
        Store(tmp_path / "games.db", "g")


def wal(folder: Path) -> int:
    return (folder / "games.db-wal").stat().st_size


def big_entries(first: int, count: int) -> list[Entry]:
    """Return entries of some 20 kB each that cannot be compressed."""
    rng = random.Random(first)
    return [entry(number, rng.randbytes(20_000)) for number in range(first, first + count)]


def test_the_log_of_the_store_begins_anew_beside_a_reader_that_takes_its_time(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader between two games (while a window is filled) holds no transaction open. It reads page after
    page what was stored when it began."""
    monkeypatch.setattr(reading, "PAGE", 4)
    store.commit(big_entries(0, 20))
    reader = StoreReader(tmp_path / "games.db")
    games = reader.rows(Range())
    next(games)
    for batch in range(1, 31):
        store.commit(big_entries(100 * batch, 100))
    assert wal(tmp_path) < 20_000_000
    assert [one.seq for one in games] == list(range(2, 21))


def test_the_log_of_the_store_is_cut_back_after_a_large_commit(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(sqlite, "WAL_BYTES", 1_000_000)
    store = Store(tmp_path / "games.db", "tic_tac_toe")
    store.commit(big_entries(0, 1000))
    assert wal(tmp_path) > 20_000_000
    store.commit(big_entries(1000, 1))
    assert wal(tmp_path) <= 1_000_000


def test_rejected_games_are_bounded_in_number_and_bytes(store: Store, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(sqlite, "REJECTS", 30)
    monkeypatch.setattr(sqlite, "REJECTS_WITH_DATA", 10)
    for number in range(100):
        data = random.Random(number).randbytes(100_000 if number == 95 else 100)
        store.commit([], [Reject(bytes([number]) * 16, b"s" * 32, "clients", "bad_hash", "r" * 9000, data)])
    rows = sqlite3.connect(tmp_path / "games.db").execute(
        "SELECT uid, data IS NOT NULL, length(reason) FROM rejects ORDER BY seq"
    )
    assert [(uid[0], kept, text) for uid, kept, text in rows] == [
        (number, int(number >= 90 and number != 95), 2000) for number in range(70, 100)
    ]


def seen(folder: Path) -> dict[str, tuple[int, int]]:
    """Return size and time of the last change of all files and folders, by path."""
    found = ((path, path.stat()) for path in [folder, *folder.rglob("*")])
    return {str(path): (about.st_size, about.st_mtime_ns) for path, about in found}


def test_looking_at_a_store_at_rest_changes_nothing(store: Store, tmp_path: Path) -> None:
    store.commit([entry(1)])
    store.close()
    before = seen(tmp_path)
    with closing(StoreReader(tmp_path / "games.db")) as reader:
        assert reader.span() == (1, 1)
        assert seen(tmp_path) == before
    copy_games(tmp_path / "games.db", tmp_path.with_name("copy.db"))
    check_file(tmp_path / "games.db")
    assert seen(tmp_path) == before


@pytest.mark.parametrize("is_link", [False, True])
def test_looking_at_the_store_of_a_killed_trainer_finds_all_games_and_changes_nothing(
    tmp_path: Path, is_link: bool
) -> None:
    """The games are in the write-ahead log only; of a link to a larger disk, the log is there, too."""
    path = tmp_path / "a run" / "games.db"
    path.parent.mkdir()
    if is_link:
        path.symlink_to(tmp_path / "games.db")
    code = (
        "import os, sys, pathlib; from azselfplay.store.sqlite import Store, Entry; "
        "store = Store(pathlib.Path(sys.argv[1]), 'g'); "
        "store.commit([Entry(b'u' * 16, b's' * 32, 'workers', 9, 1, 'line', 0, 0, b'data')]); os._exit(9)"
    )
    subprocess.run([sys.executable, "-c", code, str(path)], check=False)
    before = seen(tmp_path)
    assert before[f"{path.resolve()}-wal"][0] > 0
    with closing(StoreReader(path)) as reader:
        assert reader.span() == (1, 1)
    assert seen(tmp_path) == before


def test_a_reader_of_a_store_at_rest_sees_the_games_of_a_trainer_that_begins_and_ends(
    store: Store, tmp_path: Path
) -> None:
    store.commit([entry(1)])
    store.close()
    with closing(StoreReader(tmp_path / "games.db")) as reader:
        assert reader.span() == (1, 1)
        again = Store(tmp_path / "games.db", "g")
        again.commit([entry(2)])
        assert reader.span() == (1, 2)
        again.commit([entry(n, bytes(range(256)) * 400) for n in range(3, 400)])
        assert reader.span() == (1, 399)
        again.close()
        assert len(list(reader.rows(Range()))) == 399
