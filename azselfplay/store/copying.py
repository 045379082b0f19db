"""Copies of a games.db: a backup while the trainer writes to it, and what can be saved of a damaged one.

A backup uses SQLite's backup API. SQLite's dump stops at the first damaged page, so a salvage reads each game
by its number: a damaged page loses only the games on it, or on pages below it in the tree.
"""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apsw

from azselfplay.games.spec import Game
from azselfplay.host.exits import Exit, Fatal
from azselfplay.host.runs import sync_folder
from azselfplay.store.errors import reading
from azselfplay.store.rows import COLUMNS, DATA, HAS_RECORD, Row, Stored, readable
from azselfplay.store.sqlite import Store, at_rest, beside, connect
from protocol.records import BadRecord

# ---- A copy while the trainer writes -------------------------------------------------------------


OF_WRITING = (apsw.FullError, apsw.ReadOnlyError, apsw.CantOpenError, apsw.IOError)
"""Errors of writing the copy. All others come from the store that is copied."""
OF_READING = frozenset({apsw.SQLITE_IOERR_READ, apsw.SQLITE_IOERR_SHORT_READ, apsw.SQLITE_IOERR_CORRUPTFS})
"""Extended codes of the IOErrors that come from reading the store."""


def copy_games(source: Path, target: Path) -> None:
    """Write a snapshot of the games of `source` to one file, `target`.

    Uses SQLite's backup API in a single step. The backup reads in one transaction, so it sees all of a commit
    or nothing of it, however many commits come meanwhile, and no commit waits for it. (The write-ahead log is
    not checkpointed while the backup lasts.) Raises Fatal as `store.errors.reading` does.
    """
    while True:
        marks = at_rest(source)
        with reading(source), contextlib.closing(connect(source, read_only=True)) as old:
            try:
                with contextlib.closing(apsw.Connection(str(target))) as new:
                    with new.backup("main", old, "main") as backup:
                        # All pages in one step: a commit between two steps would restart the copy.
                        backup.step(-1)
                    # Otherwise opening the copy would write files beside it.
                    new.execute("PRAGMA journal_mode=DELETE")
            except OF_WRITING as error:
                if getattr(error, "extendedresult", 0) in OF_READING:
                    raise
                free = ""
                with contextlib.suppress(OSError):
                    free = f"; {shutil.disk_usage(target.parent).free / 1e6:,.0f} MB are free there"
                text = f"{target} cannot be written ({type(error).__name__}{free}): free space"
                raise Fatal(f"{text}, or name another disk", Exit.DISK) from error
        if at_rest(source) == marks:
            return
        target.unlink()  # a trainer has begun, which a reader of a store at rest does not notice


def check_file(path: Path) -> None:
    """Raise Fatal(BAD_DATA) unless SQLite finds all pages of the file intact."""
    with reading(path):
        connection = connect(path, read_only=True)
        found = [str(row[0]) for row in connection.execute("PRAGMA quick_check(1)")]
        connection.close()
    if found != ["ok"]:
        raise Fatal(f"{path} is damaged: {found[0]}", Exit.BAD_DATA)


# ---- What is left of a damaged one ---------------------------------------------------------------


LEAST_BYTES = 64
"""Fewest bytes of a game in the file. Damaged pages may name numbers of any size; numbers too high for the
size of the file are ignored."""
AT_ONCE = 500
"""Games in one transaction of the new file."""
PROGRESS_SECONDS = 5.0
"""Seconds between two reports of progress."""
_HIGHEST = (
    "SELECT max(seq) FROM games",
    # `+seq` reads the whole index rather than the end of the table.
    "SELECT max(+seq) FROM games INDEXED BY games_totals",
    "SELECT max(+seq) FROM games INDEXED BY sqlite_autoindex_games_1",
    "SELECT max(seq) FROM played_by",
)
_ONE = f"SELECT {COLUMNS}, {DATA} FROM games WHERE seq = ?"
_PLAYER = "SELECT CAST(name AS BLOB) FROM played_by JOIN players USING (player) WHERE seq = ?"


@dataclass(frozen=True)
class Salvaged:
    """The result of a salvage."""

    saved: int
    """Games in the new file."""
    lost: int
    """Games that could not be read, or are not what was stored."""
    unread: tuple[str, ...] = ()
    """Other tables of which a part could not be read."""


def salvage(source: Path, target: Path, game: Game, tell: Callable[[int, int, int], None]) -> Salvaged:
    """Write the intact games of `source` to the new file `target`, under the same numbers, with their players
    and the quarantine. Rejected games are left out.

    `tell(number, last, lost)` is called every few seconds. Raises Fatal(CONFIG) if `target` exists or
    its folder does not, Fatal(BAD_DATA) if `source` is no database, and Fatal(DISK) if `target` cannot be
    written.
    """
    if target.exists():
        raise Fatal(f"{target} exists: name a new file with --out", Exit.CONFIG)
    if not target.parent.is_dir():
        raise Fatal(f"there is no folder {target.parent}: make it, or name another --out", Exit.CONFIG)
    with reading(source), contextlib.closing(connect(source, read_only=True)) as connection:
        connection.execute("PRAGMA writable_schema=ON")  # allows reading a truncated file
        list(connection.execute("SELECT 1 FROM games LIMIT 0"))  # reads the schema: is it a store?
        old, told, saved = _Old(connection, game, source), time.monotonic(), 0
        # Until it is complete, it has another name, so that nobody mistakes it for a whole one.
        partial = target.with_name(f"{target.name}.partial")
        partial.unlink(missing_ok=True)
        try:
            with contextlib.closing(Store(partial, game.name)) as new:
                for first in range(1, old.last + 1, AT_ONCE):
                    numbers = range(first, min(first + AT_ONCE, old.last + 1))
                    # If an index is damaged, the old file may have a game twice.
                    saved += new.restore([row for number in numbers if (row := old.row(number)) is not None])
                    if time.monotonic() - told >= PROGRESS_SECONDS:
                        told = time.monotonic()
                        tell(numbers[-1], old.last, old.lost)
            with contextlib.closing(connect(partial, read_only=False)) as finished:
                # Otherwise the file would have -wal and -shm files beside it.
                finished.execute("PRAGMA journal_mode=DELETE")
                with finished:
                    for one in old.quarantine():
                        finished.execute("INSERT INTO quarantine VALUES (?, ?)", one)
            partial.rename(target)
            sync_folder(target.parent)
        except (apsw.Error, Fatal) as error:  # from the new file: errors in the old one are only counted
            why = error.__cause__ if isinstance(error, Fatal) else error
            text = f"{target} cannot be written: {why or 'the disk is full'}"
            raise Fatal(text, Exit.DISK) from error
        finally:
            for suffix in ("", "-wal", "-shm"):
                beside(partial, suffix).unlink(missing_ok=True)
        return Salvaged(saved, old.lost, tuple(sorted(old.unread)))


class _Old:
    """The damaged file."""

    def __init__(self, connection: Any, game: Game, path: Path) -> None:
        self.lost = 0
        self.unread: set[str] = set()
        """Tables other than that of the games of which a part could not be read."""
        self._connection = connection
        self._game = game
        parts = (path, beside(path, "-wal"))
        most = sum(part.stat().st_size for part in parts if part.exists()) // LEAST_BYTES
        found = (rows[0][0] or 0 for sql in _HIGHEST if (rows := self._query(sql)))
        self.last = max((number for number in found if number <= most), default=0)
        """The highest number that a game may have."""

    def row(self, number: int) -> Row | None:
        """Return the game, or None if there is none or it cannot be used."""
        try:
            rows = list(self._connection.execute(_ONE, (number,)))
            if not rows:
                return None
            stored = Stored.of(rows[0])
            # Only to check that the game is intact. Of one whose record was dropped (`Store`), the result is
            # left.
            if stored.data or self._query(
                f"SELECT 1 FROM games WHERE seq = ? AND {HAS_RECORD}", number, table="meta"
            ):
                stored.record(self._game)
            float(stored.received_at)
        except (apsw.Error, BadRecord, ValueError, TypeError):
            self.lost += 1
            return None
        # A game whose player cannot be read is still a good game.
        named = self._query(_PLAYER, number, table="players")
        is_old = bool(self._query("SELECT 1 FROM old_games WHERE seq = ?", number, table="old_games"))
        return Row(stored, readable(named[0][0]) if named else "", is_old)

    def quarantine(self) -> list[tuple[str, float]]:
        """Return the quarantined names and their times."""
        rows = self._query("SELECT CAST(name AS BLOB), since FROM quarantine", table="quarantine")
        return [(readable(name), at) for name, at in rows]

    def _query(self, sql: str, *values: int, table: str = "") -> list[tuple[Any, ...]]:
        """Return the rows; none if they cannot be read. In that case note `table`, if given, in `unread`."""
        try:
            return list(self._connection.execute(sql, values))
        except apsw.Error:
            if table:
                self.unread.add(table)
            return []
