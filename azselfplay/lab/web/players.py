"""The players of a run and their speeds, counted from the games that the trainer stored recently."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from azselfplay.diagnostics.players import rates
from azselfplay.host.exits import Fatal
from azselfplay.store.players import KEYS
from azselfplay.store.reader import StoreReader
from azselfplay.store.sqlite import IMPORTED
from protocol.records import BadRecord, from_bytes

WINDOW = 600.0
"""Seconds after which a game does not count any more."""
NEWEST = 1000
"""Most games that are read."""
KINDS = {"workers": "worker of azserver", "clients": "azclient"}
KIND_OF_KEY = "azclient, by its key"


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
    """The players of one run. Only one thread at a time may use it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._inode = 0
        self._games: dict[int, Played] = {}
        """The newest games, by number."""

    def rates(self, now: float | None = None) -> list[dict[str, Any]]:
        """Return one row for each recently active player, the most active first. A missing store gives none.

        The store is closed again each time, so that a deleted run frees its disk space. now: end of the
        window, in seconds since 1970.
        """
        try:
            inode = self._path.stat().st_ino
            if inode != self._inode:  # a new run under the old name
                self._inode, self._games = inode, {}
            with closing(StoreReader(self._path)) as reader:
                return self._rates(reader, time.time() if now is None else now)
        except (Fatal, OSError, TypeError, ValueError):  # or a row with damaged numbers
            self._inode, self._games = 0, {}
            return []

    def _rates(self, reader: StoreReader, now: float) -> list[dict[str, Any]]:
        low, high = reader.span()
        wanted = range(max(low, high - NEWEST + 1), high + 1) if high else range(0)
        # Read only games that were not read before.
        self._games = {number: self._games[number] for number in wanted if number in self._games}
        fresh = [number for number in wanted if number not in self._games]
        owners = reader.players_between(fresh[0], fresh[-1]) if fresh else {}
        for row in reader.rows_of(fresh):
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
        by_player: dict[tuple[str, str], list[Played]] = {}
        # Imported games were not played for this run.
        played = [one for _, one in sorted(self._games.items()) if one.kind != IMPORTED]
        recent = [one for one in played if one.at >= now - WINDOW]
        for game in recent:
            by_player.setdefault((game.kind, game.player), []).append(game)
        per_hour = rates([((one.kind, one.player), one.at) for one in recent], now)
        rows = []
        for (kind, player), games in by_player.items():
            games_per_h = per_hour.get((kind, player), 0.0)
            rows.append(
                {
                    "player": player,
                    "kind": kind,
                    "games_per_h": games_per_h,
                    "positions_per_s": games_per_h / 3600 * sum(game.plies for game in games) / len(games),
                    "seconds_per_game": sum(game.seconds for game in games) / len(games),
                    "version": games[-1].version,
                    "seen": max(0.0, now - games[-1].at),
                }
            )
        return sorted(rows, key=lambda row: (-row["games_per_h"], row["player"]))
