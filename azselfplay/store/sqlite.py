"""All games of a run, in one SQLite file: every acknowledged game is in it, permanently. If only the newest
games are to be kept, older ones of self-play lose their records, but not their rows.

The file is in WAL mode with `synchronous=FULL`, so a commit that has returned survives kill and power loss.
`UNIQUE(uid)` makes a game that is sent twice count once. Many games go into one transaction (group commit),
because a commit costs one fsync however many games it has. Only one thread of one process writes; readers
open the file read-only. apsw brings its own SQLite, which has the fix of 3.51.3 for the WAL-reset bug.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import Any

import apsw
import zstandard

from azselfplay.host.exits import Exit, Fatal
from azselfplay.host.hardware import memory_left
from azselfplay.host.reading import is_endless
from azselfplay.host.runs import Left, is_locked, left_by, reach
from azselfplay.store import players
from azselfplay.store.errors import DAMAGE, NO_DAMAGE, damaged, reading
from azselfplay.store.rows import COLUMNS, DATA, Row, Stored, readable
from protocol.records import FORMAT

log = logging.getLogger(__name__)

STORED, DUPLICATE, CONFLICT, REJECTED, RETRY = "stored", "duplicate", "conflict", "rejected", "retry"
"""The statuses that `commit` returns for games; the words of GAME_ACK."""

IMPORTED = "imported"
"""Source of games that `azplay games RUN import` has stored. They are among the `old_games`, too, so that
nothing mistakes them for self-play: only `trainer.sampler` asks for them."""
COMPRESSION_LEVEL = 3
PAGE_SIZE = 8192
"""Bytes; games take a few kB, and SQLite reads such blobs fastest with pages of this size."""
BUSY_TIMEOUT_MS = 2000
"""Milliseconds that a foreign lock (a `sqlite3` shell) may delay a commit before games are sent back."""
REJECTS = 10_000
"""Newest rejected games that are kept for inspection, with the reason."""
REJECTS_WITH_DATA = 1000
"""Newest rejected games that keep their data, unless it is longer than REJECT_BYTES: 64 MiB at most."""
REJECT_BYTES = 64 * 1024
"""Largest data of a rejected game that are kept, in bytes after compression."""
REJECT_TEXT = 2000
"""Most characters of a reason that are kept."""
DROPPED_AT_ONCE = 1024
"""Most records dropped in a commit of few games, so that a run which begins to keep only the newest games is
not held up."""
WAL_BYTES = 64 * 1024 * 1024
"""The write-ahead log is truncated to this size whenever it restarts."""
CACHE_BYTES = 64 << 20
"""Page cache of the writer (SQLite's default: 2 MB), besides the pages of the index of uids."""
INDEX_BYTES = 42
"""Bytes per game in the index of uids. Uids are random, so every game goes to another page of the index."""
CACHE_STEP = 1_000_000
"""Number of further games for which the cache has room."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS meta(key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS games(
    seq INTEGER PRIMARY KEY,
    uid BLOB NOT NULL UNIQUE,
    sha256 BLOB NOT NULL,
    source TEXT NOT NULL,
    plies INTEGER NOT NULL,
    outcome INTEGER NOT NULL,
    reason TEXT NOT NULL,
    version_min INTEGER NOT NULL,
    version_max INTEGER NOT NULL,
    received_at REAL NOT NULL,
    data BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS games_totals ON games(source, version_min, version_max, outcome, reason, plies);
CREATE TABLE IF NOT EXISTS old_games(seq INTEGER PRIMARY KEY);
CREATE TABLE IF NOT EXISTS rejects(
    seq INTEGER PRIMARY KEY,
    uid BLOB NOT NULL,
    sha256 BLOB NOT NULL,
    source TEXT NOT NULL,
    code TEXT NOT NULL,
    reason TEXT NOT NULL,
    received_at REAL NOT NULL,
    data BLOB
);
"""

_INSERT = """
INSERT OR IGNORE INTO games
(uid, sha256, source, plies, outcome, reason, version_min, version_max, received_at, data)
VALUES (:uid, :sha256, :source, :plies, :outcome, :reason, :version_min, :version_max, :received_at, :data)
"""

_REJECT = """
INSERT INTO rejects (uid, sha256, source, code, reason, received_at, data)
VALUES (:uid, :sha256, :source, :code, :reason, :received_at, :data)
"""

_RESTORE = "INSERT OR IGNORE INTO games VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING seq"
_SET_DROPPED = "INSERT OR REPLACE INTO meta VALUES ('dropped', ?)"

_ROWS = (
    f"SELECT {COLUMNS}, {DATA}, CAST(name AS BLOB), "
    "EXISTS (SELECT 1 FROM old_games WHERE old_games.seq = games.seq) "
    "FROM games LEFT JOIN played_by USING (seq) LEFT JOIN players USING (player) "
    "WHERE seq > ? ORDER BY seq LIMIT ?"
)


@dataclass(frozen=True)
class Entry:
    """A verified game to be stored; `data` is the record as it came."""

    uid: bytes
    sha256: bytes
    source: str
    plies: int
    outcome: int
    reason: str
    version_min: int
    version_max: int
    data: bytes
    is_old: bool = False
    """Whether the game is left out of ordinary training: its weights were too old when it came, or it is
    imported."""
    player: str = ""
    """The game's player (`store.players.player_of`); empty: unknown."""


@dataclass(frozen=True)
class Reject:
    """A refused game, and why."""

    uid: bytes
    sha256: bytes
    source: str
    code: str
    reason: str
    data: bytes


@dataclass
class Totals:
    """Counts over all stored games. They come from the file, so they survive restarts."""

    games: Counter[str] = field(default_factory=Counter)
    """By source: `workers`, `clients`."""
    versions: defaultdict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    """By source: the lowest and highest weights versions of its games."""
    outcomes: Counter[int] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    positions: int = 0
    newest_version: int = 0
    """Newest version in any game."""
    imported: int = 0
    """Imported games. They count nowhere else: all other figures are of self-play."""

    def add(
        self, source: str, versions: tuple[int, int], outcome: int, reason: str, plies: int, games: int = 1
    ) -> None:
        if source == IMPORTED:
            self.imported += games
            return
        self.games[source] += games
        self.versions[source].update(versions)
        self.newest_version = max(self.newest_version, *versions)
        self.outcomes[outcome] += games
        self.reasons[reason] += games
        self.positions += plies

    def count(self, game: Entry | Stored) -> None:
        """Count one game."""
        self.add(game.source, (game.version_min, game.version_max), game.outcome, game.reason, game.plies)


def connect(path: Path, *, read_only: bool) -> Any:
    """Return an apsw connection; a foreign lock delays it for at most `BUSY_TIMEOUT_MS`. Raises apsw.Error,
    and Fatal(BAD_DATA) for a pipe or a device.

    A read-only connection to a store at rest changes no file beside it. It must be opened again when
    `at_rest` changes.
    """
    for file in (path, beside(path, "-wal"), beside(path, "-shm")):
        # SQLite would wait for a pipe or a device forever.
        if is_endless(file):
            raise Fatal(f"{file} is a pipe or a device, not a file of games: move it away", Exit.BAD_DATA)
    name, flags = str(path), apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
    if read_only:
        flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
        name, marks = path.absolute().as_uri(), at_rest(path)
        # An ordinary reader of a WAL database makes -wal and -shm files, or writes to them.
        if marks is not None and marks[0] is not None and marks[1] is None:
            name += "?immutable=1"
        # There are games in the log but no writer: it was killed. If its -shm file is gone, SQLite has to
        # make one to find these games.
        elif marks is not None and marks[0] is not None and beside(path, "-shm").exists():
            name += "?readonly_shm=1"
    connection = apsw.Connection(name, flags=flags)
    connection.set_busy_timeout(BUSY_TIMEOUT_MS)
    return connection


Marks = tuple[tuple[int, int, int] | None, tuple[int, int, int] | None]


def at_rest(path: Path) -> Marks | None:
    """Return None while a trainer works on the store. Otherwise return what identifies the content of the
    file and of its write-ahead log: for each, inode, bytes, and time of the last change, or None if it is
    empty."""
    lock = path.with_name("trainer.lock")
    # If a lock of another machine cannot be seen, its trainer is assumed to be at work.
    if is_locked(lock) or left_by(lock) is Left.ELSEWHERE or beside(path, "-journal").exists():
        return None
    return _mark(path), _mark(beside(path, "-wal"))


def beside(path: Path, suffix: str) -> Path:
    """Return the path of a file that SQLite puts beside the store, or beside the target of a link."""
    return Path(os.path.realpath(path) + suffix)


def _mark(path: Path) -> tuple[int, int, int] | None:
    with contextlib.suppress(OSError):
        found = path.stat()
        if found.st_size:
            return found.st_ino, found.st_size, found.st_mtime_ns
    return None


def cache_kib(games: int, memory: float) -> int:
    """Return the KiB of pages to cache for `games` games: 107,000 at first, 476,000 for ten million, but at
    most an eighth of `memory` bytes."""
    return int(min(CACHE_BYTES + games * INDEX_BYTES, memory / 8)) // 1024


def check_format(path: Path, meta: Mapping[str, str]) -> None:
    """Raise Fatal(BAD_DATA) if the records of the store are of another format. `meta`: the table `meta`."""
    if (found := meta.get("record_format", "4 or older")) != str(FORMAT):
        raise Fatal(
            f"{path} holds games of record format {found}; this version reads and writes format {FORMAT} "
            "only. Choose another --run, or go on with the version that wrote it.",
            Exit.BAD_DATA,
        )


class Store:
    """The writing side. Raises Fatal when the file cannot be opened or belongs to another game."""

    def __init__(self, path: Path, game: str, keep: int = 0) -> None:
        """`keep`: number of newest games that keep their records, as imported games do; 0: all."""
        self._path, self._keep = path, keep
        self.error = ""
        """Why the last commit stored nothing; "" if it stored its games."""
        self._compressor = zstandard.ZstdCompressor(level=COMPRESSION_LEVEL)
        try:
            self._connection = connect(path, read_only=False)
            self._prepare(game)
            self.last_seq = self._read_last_seq()
            """`seq` of the newest game, 0 when there is none."""
            self._memory = memory_left()
            self._size_cache()
        except NO_DAMAGE as error:
            raise Fatal(
                f"cannot open the game store {path} at the moment: {error or 'out of memory'}. Free space or "
                "memory, end what locks it, or make the folder writable; then start again.",
                Exit.DISK,
            ) from error
        except DAMAGE as error:
            raise damaged(path, error) from error
        except apsw.Error as error:
            raise Fatal(
                f"cannot open the game store {path}: {error}. "
                "Check that the folder is writable, or move the file away to start a new one.",
                Exit.BAD_DATA,
            ) from error

    def _prepare(self, game: str) -> None:
        """Create missing tables, check that they belong to this game, and count the stored games."""
        execute = self._connection.execute
        # The page size comes first: in WAL mode it can no longer be changed.
        execute(f"PRAGMA page_size={PAGE_SIZE}")
        execute("PRAGMA journal_mode=WAL")
        execute("PRAGMA synchronous=FULL")
        execute(f"PRAGMA journal_size_limit={WAL_BYTES}")
        with self._transaction():
            execute(_SCHEMA + players.SCHEMA)
            if not execute("SELECT 1 FROM meta WHERE key = 'game'").fetchone():
                execute("INSERT INTO meta VALUES ('game', ?), ('record_format', ?)", (game, str(FORMAT)))
        meta = dict(execute("SELECT key, value FROM meta"))
        check_format(self._path, meta)
        if meta["game"] != game:
            raise Fatal(
                f"{self._path} holds games of {meta['game']}, but this run plays {game}. Choose another "
                "--run.",
                Exit.BAD_DATA,
            )
        self._dropped = int(meta.get("dropped", 0))
        """`seq` of the newest game whose record was dropped."""
        self.totals = Totals()
        self._last_imported = 0
        """`seq` of the newest imported game. Games are imported only while the trainer is stopped."""
        # As bytes, because damaged text would end the whole query.
        rows = execute(
            "SELECT CAST(source AS BLOB), version_min, version_max, outcome, CAST(reason AS BLOB), "
            "sum(plies), count(*), max(seq) FROM games "
            "GROUP BY source, version_min, version_max, outcome, reason"
        )
        for source, low, high, outcome, reason, plies, games, last in rows:
            self.totals.add(readable(source), (low, high), outcome, readable(reason), plies, games)
            if readable(source) == IMPORTED:
                self._last_imported = max(self._last_imported, last)
        sql = "SELECT count(*) FROM games WHERE seq <= ? AND source = ?"
        self._imported_among_dropped = int(execute(sql, (self._dropped, IMPORTED)).fetchone()[0])
        """Imported games up to `_dropped`, which keep their records."""

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """Commit everything or nothing. On a full disk SQLite itself rolls back; then nothing is left to
        do."""
        self._roll_back()  # a transaction whose own rollback failed
        # Become the only writer at once: so a foreign lock is met here, before anything is done.
        self._connection.execute("BEGIN IMMEDIATE")
        reach("store.begun")
        try:
            yield
            reach("store.inserted")
            self._connection.execute("COMMIT")
            reach("store.committed")
        except BaseException:
            self._roll_back()
            raise

    def _roll_back(self) -> None:
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def _size_cache(self) -> None:
        """Make the cache hold the whole index of uids, if there is memory for it; otherwise each game would
        read a page of it, and perhaps write the page twice."""
        self._cached_for = self.totals.games.total() + CACHE_STEP
        # A negative number means KiB, a positive one pages.
        self._connection.execute(f"PRAGMA cache_size=-{cache_kib(self._cached_for, self._memory)}")

    def _read_last_seq(self) -> int:
        return int(self._connection.execute("SELECT coalesce(max(seq), 0) FROM games").fetchone()[0])

    def commit(self, entries: Sequence[Entry], rejects: Sequence[Reject] = ()) -> list[str]:
        """Store everything in one transaction. Returns a status for each entry, then for each reject. If the
        file cannot be written at the moment, all are `retry`, and nothing may be acknowledged.

        When this returns, every `stored` game is on the disk. Raises Fatal when the file is damaged.
        """
        try:
            with self._transaction():
                statuses = [self._insert(entry) for entry in entries]
                for reject in rejects:
                    self._insert_reject(reject)
                last_seq = self._read_last_seq()
                dropped = self._drop(last_seq, len(entries))
        except NO_DAMAGE as error:
            self.error = f"{error or 'out of memory'} ({self._path}). Free space or end what locks it"
            log.error("games are NOT being stored: %s; the games wait.", self.error)
            # Nothing was stored, so nothing may be acknowledged.
            return [RETRY] * (len(entries) + len(rejects))
        except apsw.Error as error:
            raise damaged(self._path, error) from error
        # Count after the commit, so that the totals never contain what was rolled back.
        self.last_seq, self._dropped, self.error = last_seq, dropped, ""
        for entry, status in zip(entries, statuses, strict=True):
            if status == STORED:
                self.totals.count(entry)
        if self.totals.games.total() > self._cached_for:
            self._size_cache()
        return statuses + [REJECTED] * len(rejects)

    @property
    def with_records(self) -> int:
        """Games that have not lost their records; imported ones never do."""
        every = self._last_imported <= self._dropped
        imported = self.totals.imported if every else self._imported_among_dropped
        return self.last_seq - self._dropped + imported

    def _drop(self, last_seq: int, added: int) -> int:
        """Drop records of games that are not among the newest, after `added` games were added;
        `last_seq`: the number of the last one. Returns the number up to which records are dropped.

        Their rows stay, so that no game is stored twice and all totals stay right. Training goes on using
        imported games of any age.
        """
        last = last_seq - self._keep
        # Imported games may be among the newest, but `keep` counts games of self-play.
        if last < self._last_imported:
            last -= self.totals.imported
        # At least twice what was added, so that a backlog shrinks.
        last = min(last, self._dropped + max(DROPPED_AT_ONCE, 2 * added))
        if not self._keep or last <= self._dropped:
            return self._dropped
        sql = "UPDATE games SET data = x'' WHERE seq > ? AND seq <= ? AND source != ?"
        self._connection.execute(sql, (self._dropped, last, IMPORTED))
        self._connection.execute(_SET_DROPPED, (str(last),))
        return last

    def _insert(self, entry: Entry) -> str:
        execute = self._connection.execute
        data = self._compressor.compress(entry.data)
        # Inserts nothing if the uid is there already.
        execute(_INSERT, {**vars(entry), "received_at": time.time(), "data": data})
        if self._connection.changes():
            self._note(self._connection.last_insert_rowid(), entry)
            return STORED
        # The uid was there already: with the same game, or with another one.
        known = execute("SELECT sha256 FROM games WHERE uid = ?", (entry.uid,)).fetchone()[0]
        if known == entry.sha256:
            return DUPLICATE
        reason = "another game is stored under this uid"
        self._insert_reject(Reject(entry.uid, entry.sha256, entry.source, CONFLICT, reason, entry.data))
        return CONFLICT

    def _note(self, seq: int, game: Entry | Row) -> None:
        """Add what the other tables say about a new game."""
        if game.is_old:
            self._connection.execute("INSERT OR REPLACE INTO old_games VALUES (?)", (seq,))
        if game.player:
            players.note_player(self._connection.execute, seq, game.player)

    def _insert_reject(self, reject: Reject) -> None:
        execute = self._connection.execute
        data = self._compressor.compress(reject.data)
        # Bounded, or a client could fill the disk with refused games.
        bounded = {"reason": reject.reason[:REJECT_TEXT], "data": data if len(data) <= REJECT_BYTES else None}
        execute(_REJECT, {**vars(reject), **bounded, "received_at": time.time()})
        newest = self._connection.last_insert_rowid()
        # Each new refusal moves at most one older one beyond each bound.
        execute("UPDATE rejects SET data = NULL WHERE seq = ?", (newest - REJECTS_WITH_DATA,))
        execute("DELETE FROM rejects WHERE seq <= ?", (newest - REJECTS,))

    # ---- The archive ---------------------------------------------------------------------------------

    def rows_after(self, seq: int, most: int, enough: float = math.inf) -> list[Row]:
        """Return at most `most` games after number `seq`, and none after those whose records have `enough`
        bytes. Raises Fatal as `store.errors.reading` does."""
        found, size = list[Row](), 0
        with reading(self._path), closing(self._connection.execute(_ROWS, (seq, most))) as rows:
            for row in rows:
                found.append(Row(Stored.of(row[:-2]), readable(row[-2] or b""), bool(row[-1])))
                size += len(found[-1].game.data)
                if size >= enough:
                    break
        return found

    def uids_between(self, first: int, last: int) -> list[bytes]:
        """Return the uids of the games `first .. last`, in order. Raises as `rows_after` does."""
        sql = "SELECT CAST(uid AS BLOB) FROM games WHERE seq BETWEEN ? AND ? ORDER BY seq"
        with reading(self._path):
            return [bytes(uid) for (uid,) in self._connection.execute(sql, (first, last))]

    def restore(self, rows: Sequence[Row]) -> int:
        """Store games of an archive, or of a damaged store, under their numbers, all or none; those that are
        there already are left out. Returns how many are new. Raises as `rows_after` does."""
        # The records of some games may have been dropped before the archive was begun.
        last = max((row.game.seq for row in rows if not row.game.data), default=0)
        new: list[Row] = []
        with reading(self._path), self._transaction():
            for row in rows:
                if list(self._connection.execute(_RESTORE, astuple(row.game))):
                    new.append(row)
                    self._note(row.game.seq, row)
            if last > self._dropped:
                self._connection.execute(_SET_DROPPED, (str(last),))
        self._dropped = max(self._dropped, last)
        for row in new:
            self.totals.count(row.game)
            self.last_seq = max(self.last_seq, row.game.seq)
            if row.game.source == IMPORTED:
                self._last_imported = max(self._last_imported, row.game.seq)
        # At once, or a disk of the same size would not hold all the records of a long run.
        if new:
            with reading(self._path), self._transaction():
                dropped = self._drop(self.last_seq, len(new))
            self._dropped = dropped
        return len(new)

    def close(self) -> None:
        self._connection.close()
