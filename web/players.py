"""Who plays for a run, and how fast: counted from the games that the trainer has stored lately."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from protocol.records import BadRecord, from_bytes
from runtime.exits import Fatal
from store.reader import Range, StoreReader
from store.rows import Stored

WINDOW = 600.0
"""Seconds over which rates are taken."""
MOST_AT_ONCE = 200
"""Games whose records are read at a look; of more, the newest stand for all."""
MOST_KEPT = 4000


@dataclass(frozen=True)
class Played:
    """A stored game, counted `weight` times."""

    at: float
    """When it was stored, seconds since 1970."""
    player: str
    source: str
    plies: int
    seconds: float
    version: int
    weight: float


class Players:
    """The players of one run. One thread at a time may use it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._reader: StoreReader | None = None
        self._inode = 0
        self._last = 0
        """Number of the newest game seen."""
        self._games: deque[Played] = deque(maxlen=MOST_KEPT)

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def look(self) -> None:
        """Read the games that are new. A store that is gone has no players."""
        try:
            inode = self._path.stat().st_ino
            if self._reader is not None and inode != self._inode:  # a new run under the old name
                self._forget()
            if self._reader is None:
                self._reader, self._inode = StoreReader(self._path), inode
            self._take_new(self._reader)
        except (Fatal, OSError):
            self._forget()

    def _forget(self) -> None:
        self.close()
        self._games.clear()
        self._last = 0

    def _take_new(self, reader: StoreReader) -> None:
        newest = reader.span()[1]
        fresh = newest - self._last if self._last else min(newest, MOST_AT_ONCE)
        if fresh <= 0:
            return
        rows = list(reader.rows(Range(first=newest - min(fresh, MOST_AT_ONCE) + 1, last=newest)))
        self._games.extend(_played(row, fresh / max(1, len(rows))) for row in rows)
        self._last = newest

    def rates(self, now: float | None = None) -> list[dict[str, Any]]:
        """One row for each player that has played lately, the busiest first. `now`: seconds since 1970."""
        now = time.time() if now is None else now
        recent = [game for game in self._games if game.at >= now - WINDOW]
        if not recent:
            return []
        # A look back may reach less far than WINDOW: the run is younger, or only its newest games were read.
        hours = max(now - min(game.at for game in recent), 10.0) / 3600
        by_player: dict[tuple[str, str], list[Played]] = {}
        for game in recent:
            by_player.setdefault((game.source, game.player), []).append(game)
        rows = [_rate(source, player, games, hours, now) for (source, player), games in by_player.items()]
        return sorted(rows, key=lambda row: (-row["games_per_h"], row["player"]))


def _rate(source: str, player: str, games: list[Played], hours: float, now: float) -> dict[str, Any]:
    weight = sum(game.weight for game in games)
    newest = games[-1]
    return {
        "player": player,
        "kind": {"workers": "worker of azserver", "clients": "azclient"}.get(source, source),
        "games_per_h": weight / hours,
        "positions_per_s": sum(game.plies * game.weight for game in games) / hours / 3600,
        "seconds_per_game": sum(game.seconds for game in games) / len(games),
        "version": newest.version,
        "seen": max(0.0, now - newest.at),
    }


def _played(row: Stored, weight: float) -> Played:
    try:
        record = from_bytes(row.unpacked())
        player, seconds = record.source or "?", record.seconds
    except BadRecord:
        player, seconds = "?", 0.0
    return Played(row.received_at, player, row.source, row.plies, seconds, row.version_max, weight)
