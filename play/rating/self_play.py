"""A run's self-play games, read beside a running trainer (`games.db`, see `trainer/store.py`)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import apsw
import zstandard

from protocol.messages import MAX_RECORD
from protocol.records import BadRecord, GameRecord, from_bytes
from runtime.exits import Exit, Fatal

BUSY_TIMEOUT_MS = 2000


def games_by_version(path: Path) -> dict[int, int] | None:
    """Games by the newest weights version in them; None where there are no games yet."""
    if not path.exists():
        return None
    try:
        rows = _open(path).execute("SELECT version_max, count(*) FROM games GROUP BY version_max")
        return {int(version): int(games) for version, games in rows}
    except apsw.Error as error:
        raise _unreadable(path, error) from error


def records(path: Path) -> Iterator[GameRecord]:
    """All games, oldest first; those that cannot be decoded are left out."""
    unpack = zstandard.ZstdDecompressor()
    try:
        for (data,) in _open(path).execute("SELECT data FROM games ORDER BY seq"):
            try:
                yield from_bytes(unpack.decompress(data, max_output_size=MAX_RECORD))
            except (BadRecord, zstandard.ZstdError):
                continue
    except apsw.Error as error:
        raise _unreadable(path, error) from error


def _open(path: Path) -> apsw.Connection:
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    connection.set_busy_timeout(BUSY_TIMEOUT_MS)
    return connection


def _unreadable(path: Path, error: Exception) -> Fatal:
    return Fatal(f"the games in {path} cannot be read: {error}; is it a run's games.db?", Exit.BAD_DATA)
