"""Which SQLite errors mean that the file is damaged, which mean that it cannot be used at the moment, and the
message for each.

After an error of the second kind nothing has been stored, the games stay in the spools, and the same commit
is tried again. Any other error (https://sqlite.org/rescode.html) means that the file is not the one we wrote,
or that our own statements are wrong: continuing would not help.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from azselfplay.host.exits import Exit, Fatal
from azselfplay.host.runs import shown_settings

NO_DAMAGE: tuple[type[Exception], ...] = (
    apsw.FullError,  # the disk is full
    apsw.IOError,  # the disk reads or writes badly, or is gone
    apsw.ReadOnlyError,  # the disk was remounted read-only
    apsw.CantOpenError,  # journal or WAL cannot be opened: no file descriptor, no permission, folder moved
    apsw.PermissionsError,
    apsw.NoLFSError,  # the file system cannot hold a file of this size
    apsw.NoMemError,
    MemoryError,
    apsw.BusyError,  # another program works on the file
    apsw.LockedError,
    apsw.ProtocolError,  # the race for the locks of a WAL was lost too often
    apsw.SchemaChangeError,  # the tables changed between preparing a statement and running it
    apsw.AbortError,  # rolled back or interrupted by another statement or thread of ours
    apsw.InterruptError,
)
DAMAGE = (apsw.CorruptError, apsw.NotADBError, apsw.FormatError, UnicodeDecodeError)


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn SQLite's errors into a Fatal with advice. Every use of the database goes through this."""
    try:
        yield
    except (apsw.Error, UnicodeDecodeError) as error:
        raise unreadable(path, error) from error


def unreadable(path: Path, error: Exception) -> Fatal:
    """Return the Fatal for an error: BAD_DATA for a damaged file, DISK for a temporary problem (a lock, a
    full disk)."""
    if isinstance(error, DAMAGE):
        return damaged(path, error)
    if isinstance(error, apsw.SQLError):
        return Fatal(f"{path} is not a store of games: {error}. Name the folder of a run.", Exit.BAD_DATA)
    return Fatal(
        f"cannot read the games in {path}: {error}. Check that the file is there, that you may read it, and "
        "that no other program holds it.",
        Exit.DISK,
    )


def damaged(path: Path, error: Exception) -> Fatal:
    """Return the Fatal for a damaged file, which says how to save what is left."""
    if archive := shown_settings(path.with_name("trainer.toml")).get("archive"):
        text = f"End what uses the file and move it away: it is read back from the archive {archive}"
        return Fatal(f"the games in {path} are damaged: {error}. {text}", Exit.BAD_DATA)
    new = path.with_name("salvaged.db")
    return Fatal(
        f"the games in {path} are damaged: {error}. End what uses the file and keep a copy of it. "
        f"`azplay games {shlex.quote(str(path.parent))} salvage --out {shlex.quote(str(new))}` saves every "
        f"game that can still be read; put {new.name} in the place of {path.name}, and remove "
        f"{path.name}-wal and {path.name}-shm beside it. Else restore a backup, or move the file away: then "
        "a new one is begun, and clients keep the games that were not acknowledged.",
        Exit.BAD_DATA,
    )
