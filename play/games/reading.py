"""The stored games of a run, read beside a trainer that may be writing.

The file is opened read-only and read in pages, each a short transaction of its own: a reader never blocks the
writer, but one that reads for long would keep SQLite from folding its log back into the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apsw
import zstandard

from protocol.messages import MAX_RECORD
from protocol.records import BadRecord, GameRecord, from_bytes, sha256
from runtime.exits import Exit, Fatal

BUSY_TIMEOUT_MS = 5000
PAGE = 200
"""Games a query."""

_COLUMNS = "seq, uid, sha256, source, plies, outcome, reason, version_min, version_max, received_at"


@dataclass(frozen=True)
class Stored:
    """A row of the table: what the trainer noted when it took the game."""

    seq: int
    uid: bytes
    sha256: bytes
    source: str
    plies: int
    outcome: int
    reason: str
    version_min: int
    version_max: int
    received_at: float
    data: bytes = b""
    """Compressed record, if it was asked for."""

    def record(self) -> GameRecord:
        """The game itself. Raises BadRecord if it is damaged."""
        try:
            data = zstandard.ZstdDecompressor().decompress(self.data, max_output_size=MAX_RECORD)
        except zstandard.ZstdError as error:
            raise BadRecord(f"cannot be unpacked: {error}") from error
        if sha256(data) != self.sha256:
            raise BadRecord("its hash is not the one it was stored with")
        return from_bytes(data)


@dataclass(frozen=True)
class Range:
    """Games `first .. last` by number, or the `newest` of them; 0 sets no bound."""

    first: int = 0
    last: int = 0
    newest: int = 0


class GamesFile:
    """A games.db. Raises Fatal when it cannot be read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
            self._connection.set_busy_timeout(BUSY_TIMEOUT_MS)
        except apsw.Error as error:
            raise self._unreadable(error) from error
        found = self.query("SELECT value FROM meta WHERE key = 'game'")
        if not found:
            raise Fatal(f"{path} does not say which game it holds: it is no store of games", Exit.BAD_DATA)
        self.game = str(found[0][0])

    def query(self, sql: str, *arguments: Any) -> list[tuple[Any, ...]]:
        """All rows of one short query."""
        try:
            return list(self._connection.execute(sql, arguments))
        except apsw.Error as error:
            raise self._unreadable(error) from error

    def games(self, wanted: Range, *, with_data: bool) -> Iterator[Stored]:
        """The games in `wanted`, oldest first, and no newer ones than there are now."""
        columns = _COLUMNS + (", data" if with_data else "")
        after, last = self._bounds(wanted)
        while True:
            rows = self.query(
                f"SELECT {columns} FROM games WHERE seq > ? AND seq <= ? ORDER BY seq LIMIT ?",
                after,
                last,
                PAGE,
            )
            for row in rows:
                yield Stored(*row)
            if len(rows) < PAGE:
                return
            after = int(rows[-1][0])

    def game_number(self, seq: int) -> Stored:
        """One game. Fatal(BAD_DATA) if there is none of that number."""
        rows = self.query(f"SELECT {_COLUMNS}, data FROM games WHERE seq = ?", seq)
        if not rows:
            low, high, count = self.query("SELECT min(seq), max(seq), count(*) FROM games")[0]
            there = f"its {count} games have the numbers {low} to {high}" if count else "it has no games yet"
            raise Fatal(f"{self.path} has no game {seq}; {there}", Exit.BAD_DATA)
        return Stored(*rows[0])

    def numbered(self, numbers: Sequence[int]) -> list[Stored]:
        """Those of the games (at most PAGE) that there are, oldest first, with their records."""
        places = ",".join("?" * len(numbers))
        sql = f"SELECT {_COLUMNS}, data FROM games WHERE seq IN ({places}) ORDER BY seq"
        return [Stored(*row) for row in self.query(sql, *numbers)]

    def close(self) -> None:
        self._connection.close()

    def _bounds(self, wanted: Range) -> tuple[int, int]:
        """(number before the first, last number)"""
        newest = int(self.query("SELECT coalesce(max(seq), 0) FROM games")[0][0])
        last = min(wanted.last or newest, newest)
        after = wanted.first - 1 if wanted.first else 0
        if wanted.newest:
            rows = self.query(
                "SELECT seq FROM games WHERE seq <= ? ORDER BY seq DESC LIMIT 1 OFFSET ?",
                last,
                wanted.newest,
            )
            after = max(after, int(rows[0][0]) if rows else 0)
        return after, last

    def _unreadable(self, error: apsw.Error) -> Fatal:
        return Fatal(
            f"cannot read the games in {self.path}: {error}. Give the folder of a run with a games.db that "
            "you may read.",
            Exit.BAD_DATA,
        )


def games_file(run: str, runs: Path) -> GamesFile:
    """The games of the run in folder `run`, or called `run` in `runs`. Fatal(BAD_DATA) if there is none."""
    for folder in (Path(run), runs / run):
        if (folder / "games.db").is_file():
            return GamesFile(folder / "games.db")
    known = sorted(path.parent.name for path in runs.glob("*/games.db"))
    there = f"{runs} has {', '.join(known)}" if known else f"{runs} has no run with games"
    raise Fatal(f"no games.db in {run} nor in {runs / run}; {there}", Exit.BAD_DATA)
