"""The players of a run and their speeds, counted from the games that the trainer stored recently."""

from __future__ import annotations

import math
import threading
import time
from bisect import bisect_left
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from azselfplay.host.exits import Fatal
from azselfplay.store.players import KEYS
from azselfplay.store.reader import StoreReader
from azselfplay.store.sqlite import IMPORTED
from protocol.records import BadRecord, from_bytes

WINDOW = 600.0
"""Seconds over which rates are measured."""
SHORTEST = 10.0
"""Least number of seconds for a rate, for a run that has just begun."""
MOST_READ = 400
"""Most games of the window whose records are read; if there are more, this sample represents all."""
KINDS = {"workers": "worker of azserver", "clients": "azclient"}
KIND_OF_KEY = "azclient, by its key"
MIX = 0x9E3779B97F4A7C15
"""2^64 divided by the golden ratio: its multiples modulo 2^64 are spread evenly."""


@dataclass(frozen=True)
class Played:
    """A stored game."""

    at: float
    """When it was stored, seconds since 1970."""
    player: str
    """Name of the player's key, or else the name that the player gives itself."""
    kind: str
    plies: int
    seconds: float
    version: int


class Players:
    """The players of one run. Only one thread at a time reads; others wait."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._reader: StoreReader | None = None
        self._inode = 0
        self._games: dict[int, Played] = {}
        """The games of the window that were read, by number."""

    def close(self) -> None:
        """Close the store; `rates` opens it again."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def rates(self, now: float | None = None) -> list[dict[str, Any]]:
        """Return one row for each recently active player, the most active first. A missing store gives none.

        now: end of the window, in seconds since 1970.
        """
        with self._lock:
            try:
                inode = self._path.stat().st_ino
                if self._reader is not None and inode != self._inode:  # a new run under the old name
                    self._forget()
                if self._reader is None:
                    self._reader, self._inode = StoreReader(self._path), inode
                return self._rates(self._reader, time.time() if now is None else now)
            except (Fatal, OSError, TypeError, ValueError):  # or a row with damaged numbers
                self._forget()
                return []

    def _forget(self) -> None:
        self._close()
        self._games.clear()

    def _rates(self, reader: StoreReader, now: float) -> list[dict[str, Any]]:
        first, last = _since(reader, now - WINDOW)
        if last == 0 or first > last:
            return []
        # Read only games that were not read before, and forget games that have left the window.
        wanted = _sample(first, last)
        self._games = {number: self._games[number] for number in wanted if number in self._games}
        fresh = [number for number in wanted if number not in self._games]
        owners = reader.players_of(fresh)
        for row in reader.numbered(fresh):
            try:
                record = from_bytes(row.unpacked())
                player, seconds = record.source or "?", record.seconds
            except BadRecord:
                player, seconds = "?", 0.0
            kind, owner = KINDS.get(row.source, row.source), owners.get(row.seq, "")
            # A player may call itself anything; its key is checked.
            if owner.startswith(KEYS):
                player, kind = owner.removeprefix(KEYS), KIND_OF_KEY
            self._games[row.seq] = Played(row.received_at, player, kind, row.plies, seconds, row.version_max)
        # If a run is younger than the window, its rates are over its own lifetime.
        oldest = reader.query("SELECT received_at FROM games ORDER BY seq LIMIT 1")
        began = max(oldest[0][0] if oldest else now, now - WINDOW)
        hours = max(now - began, SHORTEST) / 3600
        by_player: dict[tuple[str, str], list[Played]] = {}
        for _, game in sorted(self._games.items()):
            # Imported games were not played for this run.
            if game.kind != IMPORTED:
                by_player.setdefault((game.kind, game.player), []).append(game)
        weight = (last - first + 1) / max(1, len(self._games))  # games per sampled game
        rows = []
        for (kind, player), played in by_player.items():
            newest = played[-1]
            rows.append(
                {
                    "player": player,
                    "kind": kind,
                    "games_per_h": len(played) * weight / hours,
                    "positions_per_s": sum(game.plies for game in played) * weight / hours / 3600,
                    "seconds_per_game": sum(game.seconds for game in played) / len(played),
                    "version": newest.version,
                    "seen": max(0.0, now - newest.at),
                }
            )
        return sorted(rows, key=lambda row: (-row["games_per_h"], row["player"]))


def _since(reader: StoreReader, moment: float) -> tuple[int, int]:
    """Return the numbers of the first game that was stored at `moment` (seconds since 1970) or later, and of
    the last game. If no game is that new, the first is greater than the last."""
    low, high = reader.span()
    sql = "SELECT received_at FROM games WHERE seq >= ? ORDER BY seq LIMIT 1"

    def stored_at(number: int) -> float:
        found = reader.query(sql, number)
        # A damaged store may lack the games that its numbers promise.
        return found[0][0] if found else math.inf

    # The time has no index, but games are stored in the order of their times.
    return low + bisect_left(range(low, high + 1), moment, key=stored_at), high


def _sample(first: int, last: int) -> list[int]:
    """Return at most about MOST_READ of the numbers, spread evenly, at a cost that does not depend on their
    count.

    In a long stretch, one number is taken from each block of 2, 4, 8 ... numbers: the one that represents one
    of the block's halves. So the numbers taken for larger blocks are among those taken for smaller blocks.
    """
    level = max(0, math.ceil(math.log2((last - first + 1) / MOST_READ)))
    numbers = []
    for block in range(first >> level, (last >> level) + 1):
        number = block
        for _ in range(level):
            # The half is chosen pseudo-randomly, so that players whose games alternate are sampled equally.
            number = 2 * number + (number * MIX % 2**64 >> 40 & 1)
        if first <= number <= last:
            numbers.append(number)
    return numbers
