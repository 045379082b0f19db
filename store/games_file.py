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

from runtime.exits import Exit, Fatal
from store.rows import COLUMNS, DATA, Stored, reading

BUSY_TIMEOUT_MS = 5000
PAGE = 200
"""Games a query."""


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
        with reading(path):
            self._connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
            self._connection.set_busy_timeout(BUSY_TIMEOUT_MS)
        found = self.query("SELECT value FROM meta WHERE key = 'game'")
        if not found:
            raise Fatal(f"{path} does not say which game it holds: it is no store of games", Exit.BAD_DATA)
        self.game = str(found[0][0])

    def query(self, sql: str, *arguments: Any) -> list[tuple[Any, ...]]:
        """All rows of one short query."""
        with reading(self.path):
            return list(self._connection.execute(sql, arguments))

    def games(self, wanted: Range, *, with_data: bool) -> Iterator[Stored]:
        """The games in `wanted`, oldest first, and no newer ones than there are now."""
        columns = COLUMNS + (f", {DATA}" if with_data else "")
        after, last = self._bounds(wanted)
        while True:
            rows = self.query(
                f"SELECT {columns} FROM games WHERE seq > ? AND seq <= ? ORDER BY seq LIMIT ?",
                after,
                last,
                PAGE,
            )
            for row in rows:
                yield Stored.of(row)
            if len(rows) < PAGE:
                return
            after = int(rows[-1][0])

    def game_number(self, seq: int) -> Stored:
        """One game. Fatal(BAD_DATA) if there is none of that number."""
        rows = self.query(f"SELECT {COLUMNS}, {DATA} FROM games WHERE seq = ?", seq)
        if not rows:
            low, high, count = self.query("SELECT min(seq), max(seq), count(*) FROM games")[0]
            there = f"its {count} games have the numbers {low} to {high}" if count else "it has no games yet"
            raise Fatal(f"{self.path} has no game {seq}; {there}", Exit.BAD_DATA)
        return Stored.of(rows[0])

    def numbered(self, numbers: Sequence[int]) -> list[Stored]:
        """Those of the games (at most PAGE) that there are, oldest first, with their records."""
        places = ",".join("?" * len(numbers))
        sql = f"SELECT {COLUMNS}, {DATA} FROM games WHERE seq IN ({places}) ORDER BY seq"
        return [Stored.of(row) for row in self.query(sql, *numbers)]

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


def games_file(run: str, runs: Path) -> GamesFile:
    """The games of the run in folder `run`, or called `run` in `runs`. Fatal(BAD_DATA) if there is none."""
    for folder in (Path(run), runs / run):
        if (folder / "games.db").is_file():
            return GamesFile(folder / "games.db")
    known = sorted(path.parent.name for path in runs.glob("*/games.db"))
    there = f"{runs} has {', '.join(known)}" if known else f"{runs} has no run with games"
    raise Fatal(f"no games.db in {run} nor in {runs / run}; {there}", Exit.BAD_DATA)
