"""Who played which game, and which players' games are not trained on: small tables beside `games` in
games.db.

    players      a number for each name
    played_by    by game (`seq`), the number of its player
    quarantine   names whose games stay stored, but are neither in the window nor in the accounts of training

The trainer writes the first two with each game. `azplay players RUN --quarantine NAME` writes the third, in a
short transaction of its own, and the trainer reads it while it runs. Games that were stored before these
tables existed have no player.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw

from azselfplay.host.logs import on_one_line
from azselfplay.store.errors import reading

QUARANTINE = (
    "CREATE TABLE IF NOT EXISTS quarantine(name TEXT PRIMARY KEY, since REAL NOT NULL) WITHOUT ROWID;\n"
)
SCHEMA = (
    "CREATE TABLE IF NOT EXISTS players(player INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);\n"
    "CREATE TABLE IF NOT EXISTS played_by(seq INTEGER PRIMARY KEY, player INTEGER NOT NULL);\n" + QUARANTINE
)
UNNAMED = "unnamed"
KEYS = "keys/"
"""Prefix of players that are known by a key; all others begin with `workers/` or `clients/`."""
NAME_CHARACTERS = 120
BUSY_TIMEOUT_MS = 10_000


def player_of(role: str, source: str, key: str = "") -> str:
    """Return the name of a game's player. This is the only place that defines it.

    role: how the game came, `workers` or `clients`. source: the player according to the record, HOST/WORKER,
    as the client states it. key: name of the key that the game came with, as the server knows it; "" where no
    keys are used.

    Without a key a player can claim any name. Such a name begins with its role, so it is never that of a key.
    """
    if key:
        return on_one_line(f"{KEYS}{key}")[:NAME_CHARACTERS]
    # Without the worker's number: one player has many workers.
    name = source.rpartition("/")[0] or source or UNNAMED
    return on_one_line(f"{role}/{name}")[:NAME_CHARACTERS]


def note_player(execute: Callable[..., Any], seq: int, player: str) -> None:
    """Store the player of game `seq`, within a transaction of the store. A row that already has this number
    is replaced: its game was lost with a damaged page."""
    execute("INSERT OR IGNORE INTO players(name) VALUES (?)", (player,))
    execute("INSERT OR REPLACE INTO played_by SELECT ?, player FROM players WHERE name = ?", (seq, player))


def set_quarantine(path: Path, player: str, *, quarantined: bool) -> bool:
    """Put a player's games into quarantine, or release them. Returns False if nothing has changed.

    A running trainer may commit at the same time: each of the two waits for the other. Raises Fatal as
    `store.errors.reading` does.
    """
    with reading(path):
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            connection.set_busy_timeout(BUSY_TIMEOUT_MS)
            # A quarantine must survive a power loss, as games do.
            connection.execute("PRAGMA synchronous=FULL")
            # A store of an earlier version may lack the table.
            connection.execute(QUARANTINE)
            if quarantined:
                row = (player, time.time())
                connection.execute("INSERT OR IGNORE INTO quarantine VALUES (?, ?)", row)
            else:
                connection.execute("DELETE FROM quarantine WHERE name = ?", (player,))
            return bool(connection.changes())
        finally:
            connection.close()
