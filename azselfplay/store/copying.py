"""Copies a games.db while the trainer writes to it."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path

import apsw

from azselfplay.host.exits import Exit, Fatal
from azselfplay.store.errors import reading
from azselfplay.store.sqlite import at_rest, connect

OF_WRITING = (apsw.FullError, apsw.ReadOnlyError, apsw.CantOpenError, apsw.IOError)
"""Errors of writing the copy. All others come from the store that is copied."""
OF_READING = frozenset({apsw.SQLITE_IOERR_READ, apsw.SQLITE_IOERR_SHORT_READ, apsw.SQLITE_IOERR_CORRUPTFS})
"""Extended codes of those IOErrors that come from reading the store."""


def copy_games(source: Path, target: Path) -> None:
    """Write to `target` the games of `source` as they are at one moment, in one file.

    Uses SQLite's own backup in a single step. It reads in one transaction, so it sees either all of a commit
    or nothing, however many come meanwhile, and none of them waits for it. (The write-ahead log is not
    checkpointed while it lasts.) Raises Fatal as `store.errors.reading` does.
    """
    while True:
        marks = at_rest(source)
        _copy(source, target)
        if at_rest(source) == marks:
            return
        target.unlink()  # a trainer has begun meanwhile, for which a reader of a store at rest does not look


def _copy(source: Path, target: Path) -> None:
    with reading(source), contextlib.closing(connect(source, read_only=True)) as old:
        try:
            with contextlib.closing(apsw.Connection(str(target))) as new:
                with new.backup("main", old, "main") as backup:
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


def check_file(path: Path) -> None:
    """Raise Fatal(BAD_DATA) unless SQLite finds all pages of the file intact."""
    with reading(path):
        connection = connect(path, read_only=True)
        found = [str(row[0]) for row in connection.execute("PRAGMA quick_check(1)")]
        connection.close()
    if found != ["ok"]:
        raise Fatal(f"{path} is damaged: {found[0]}", Exit.BAD_DATA)
