"""A run's self-play games, read beside a running trainer (`games.db`, see `store/sqlite.py`)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from games import get_game
from protocol.records import GameRecord
from store.reader import Range, StoreReader


def games_by_version(path: Path) -> dict[int, int] | None:
    """Games by the newest weights version in them; None where there are no games yet."""
    if not path.exists():
        return None
    rows = StoreReader(path).query("SELECT version_max, count(*) FROM games GROUP BY version_max")
    return {int(version): int(games) for version, games in rows}


def records(path: Path) -> Iterator[GameRecord]:
    """All games, oldest first; damaged ones are left out, and named in the log."""
    reader = StoreReader(path)
    return (record for _, record in reader.sound(get_game(reader.game), Range()))
