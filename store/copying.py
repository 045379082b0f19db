"""Copies a games.db while the trainer writes to it."""

from __future__ import annotations

from pathlib import Path

import apsw

from runtime.exits import Exit, Fatal
from store.errors import reading
from store.sqlite import connect


def copy_games(source: Path, target: Path) -> None:
    """Write to `target` the games of `source` as they are at one moment, in one file.

    Uses SQLite's own backup in a single step. It reads in one transaction, so it sees either all of a commit
    or nothing, however many come meanwhile, and none of them waits for it. (The write-ahead log is not
    checkpointed while it lasts.) Raises Fatal as `store.errors.reading` does.
    """
    with reading(source):
        old = connect(source, read_only=True)
        try:
            new = apsw.Connection(str(target))
            try:
                with new.backup("main", old, "main") as backup:
                    backup.step(-1)
                # Otherwise opening the copy would write files beside it.
                new.execute("PRAGMA journal_mode=DELETE")
            finally:
                new.close()
        finally:
            old.close()


def check_file(path: Path) -> None:
    """Raise Fatal(BAD_DATA) unless SQLite finds all pages of the file intact."""
    with reading(path):
        connection = connect(path, read_only=True)
        found = [str(row[0]) for row in connection.execute("PRAGMA quick_check(1)")]
        connection.close()
    if found != ["ok"]:
        raise Fatal(f"{path} is damaged: {found[0]}", Exit.BAD_DATA)
