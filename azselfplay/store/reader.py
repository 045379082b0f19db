"""Reads the games of a run while a trainer writes: a range of numbers, the newest, or by uid.

The file is opened read-only and read in pages, each a short transaction of its own. A reader never blocks the
writer, but a long read would keep SQLite from checkpointing its log.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from azselfplay.games.spec import Game
from azselfplay.host.exits import Exit, Fatal
from azselfplay.host.runs import RunFolder
from azselfplay.link.finding import run_named
from azselfplay.store.errors import reading
from azselfplay.store.rows import COLUMNS, DATA, HAS_RECORD, DamagedGames, Stored, readable
from azselfplay.store.sqlite import IMPORTED, at_rest, check_format, connect
from protocol.records import BadRecord, GameRecord

PAGE = 256
"""Games per query."""
LONG_PAGE = 4096
"""Games per query, where only their length is needed."""


@dataclass(frozen=True)
class Range:
    """Games `first .. last` by number, or the `newest` games of them; 0 sets no bound."""

    first: int = 0
    last: int = 0
    newest: int = 0


SPAN = "SELECT coalesce((SELECT min(seq) FROM games), 0), coalesce((SELECT max(seq) FROM games), 0)"
"""Two subqueries, because for a minimum and a maximum in one query SQLite scans the whole table."""


class StoreReader:
    """A games.db. Only one thread at a time may use it. Raises Fatal when the file cannot be read.

    Methods that return records leave out games whose records were dropped (`Store`), and damaged rows, which
    they name in the log and count in `damaged`.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.damaged = DamagedGames()
        self._marks = at_rest(path)
        with reading(path):
            self._connection = connect(path, read_only=True)
        meta = dict(self.query("SELECT key, value FROM meta"))
        if "game" not in meta:
            raise Fatal(f"{path} does not say which game it holds: it is not a store of games", Exit.BAD_DATA)
        check_format(path, meta)
        self.game = str(meta["game"])
        """Name of the game."""

    def query(self, sql: str, *arguments: Any) -> list[tuple[Any, ...]]:
        """Return all rows of one short query."""
        with reading(self.path):
            return list(self._execute(sql, arguments))

    def _execute(self, sql: str, arguments: Sequence[Any]) -> Any:
        """Return a cursor. If a trainer has begun or ended since the last query, the file is opened again,
        and the old connection ends with its last cursor."""
        # A connection to a store at rest does not see what a trainer writes.
        if (marks := at_rest(self.path)) != self._marks:
            self._marks = marks
            self._connection = connect(self.path, read_only=True)
        return self._connection.execute(sql, arguments)

    def close(self) -> None:
        self._connection.close()

    # ---- By number -----------------------------------------------------------------------------------

    def span(self) -> tuple[int, int]:
        """Return the numbers of the oldest and the newest game; (0, 0) without games."""
        ((low, high),) = self.query(SPAN)
        return int(low), int(high)

    def rows(self, wanted: Range, *, with_data: bool = True) -> Iterator[Stored]:
        """Yield the games in `wanted`, oldest first, and none newer than those stored now. No transaction is
        open between two pages, however long the caller takes over them."""
        first, last = self.bounds(wanted)
        where = "seq BETWEEN ? AND ? ORDER BY seq LIMIT ?"
        while rows := list(self._select(where, first, last, PAGE, with_data=with_data)):
            yield from rows
            first = rows[-1].seq + 1

    def records(self, game: Game, wanted: Range) -> Iterator[tuple[Stored, GameRecord]]:
        """Return the games in `wanted` with their records, all intact and of `game`."""
        return self._with_records(game, self.rows(wanted))

    def records_of(self, game: Game, numbers: Sequence[int]) -> Iterator[tuple[Stored, GameRecord]]:
        """Return the games that exist among `numbers` with their records, all intact and of `game`."""
        return self._with_records(game, self.rows_of(numbers))

    def row(self, seq: int) -> Stored:
        """Return a game with its record. Raises Fatal(BAD_DATA) if there is no game with that number."""
        for stored in self.rows_of([seq]):
            return stored
        if self.was_dropped(seq):
            text = f"the record of game {seq} of {self.path} was dropped: the trainer keeps only the newest"
            raise Fatal(f"{text} games (keep_games)", Exit.BAD_DATA)
        ((low, high, count),) = self.query("SELECT min(seq), max(seq), count(*) FROM games")
        there = f"its {count} games have the numbers {low} to {high}" if count else "it has no games yet"
        raise Fatal(f"{self.path} has no game {seq}; {there}", Exit.BAD_DATA)

    def was_dropped(self, seq: int) -> bool:
        """Return whether the store has dropped the record of this game (`Store`)."""
        return bool(self.query(f"SELECT 1 FROM games WHERE seq = ? AND NOT {HAS_RECORD}", seq))

    def rows_of(self, numbers: Sequence[int]) -> Iterator[Stored]:
        """Yield the games that exist among `numbers`, with their records: page after page, and sorted within
        a page."""
        for begin in range(0, len(numbers), PAGE):
            page = numbers[begin : begin + PAGE]
            # Read whole, so that no transaction stays open while the caller works.
            yield from list(self._select(f"seq IN ({','.join('?' * len(page))}) ORDER BY seq", *page))

    def first_of_newest(
        self,
        positions: int,
        last: int,
        counts: Callable[[bytes], bool] = lambda _: True,
        without: Collection[str] = (),
    ) -> int:
        """Return the number of the newest game from which on the games up to `last` have at least `positions`
        positions; 1 if there are fewer.

        A game counts if `counts(uid)` is true, it is trained on, and its player is not in `without`.
        """
        total = 0
        sql = (
            "SELECT seq, CAST(uid AS BLOB), CAST(plies AS INTEGER) FROM games WHERE seq <= ? "
            "ORDER BY seq DESC LIMIT ?"
        )
        while rows := self.query(sql, last, LONG_PAGE):
            # One query for the whole page: a query for each game would take minutes.
            left_out = self.not_trained_on(rows[-1][0], last, without)
            for seq, uid, plies in rows:
                total += plies if counts(uid) and seq not in left_out else 0
                if total >= positions:
                    return int(seq)
            last = rows[-1][0] - 1
        return 1

    def not_trained_on(self, first: int, last: int, quarantined: Collection[str]) -> frozenset[int]:
        """Return the numbers of the games among `first .. last` that ordinary training leaves out
        (`store.sqlite.Entry.is_old`), or that are by a player in `quarantined`."""
        players = self.players_between(first, last) if quarantined else {}
        return self.old_between(first, last).union(
            seq for seq, name in players.items() if name in quarantined
        )

    def old_between(self, first: int, last: int) -> frozenset[int]:
        """Return the numbers of the games among `first .. last` that are not trained on."""
        rows = self.query("SELECT seq FROM old_games WHERE seq BETWEEN ? AND ?", first, last)
        return frozenset(int(seq) for (seq,) in rows)

    def newest_of_play(self, count: int, last: int) -> list[int]:
        """Return the ascending numbers of the newest `count` games up to `last` that are not among the
        `old_games`."""
        sql = (
            "SELECT seq FROM games WHERE seq <= ? AND NOT EXISTS "
            "(SELECT 1 FROM old_games WHERE old_games.seq = games.seq) ORDER BY seq DESC LIMIT ?"
        )
        return sorted(int(seq) for (seq,) in self.query(sql, last, count))

    def count(self, source: str) -> int:
        """Return the number of games from a source (`store.sqlite.Entry`)."""
        ((games,),) = self.query("SELECT count(*) FROM games WHERE source = ?", source)
        return int(games)

    def imported(self, positions: int) -> tuple[list[int], int]:
        """Return the ascending numbers of the newest imported games that together have at most `positions`
        positions, and how many positions they have."""
        where = f"source = ? AND {HAS_RECORD}"
        sql = f"SELECT seq, CAST(plies AS INTEGER) FROM games WHERE {where} ORDER BY seq DESC"
        numbers, total = list[int](), 0
        for seq, plies in self.query(sql, IMPORTED):
            if total + plies > positions:
                break
            numbers.append(int(seq))
            total += plies
        return numbers[::-1], total

    # ---- By player -----------------------------------------------------------------------------------

    def players_between(self, first: int, last: int) -> dict[int, str]:
        """Return the players of the games `first .. last`, by number; games without a known player are left
        out."""
        sql = (
            "SELECT seq, CAST(name AS BLOB) FROM played_by JOIN players USING (player) "
            "WHERE seq BETWEEN ? AND ?"
        )
        return {int(seq): readable(name) for seq, name in self.query(sql, first, last)}

    def games_of(self, player: str, last: int) -> list[int]:
        """Return the numbers of a player's games up to `last`, ascending."""
        sql = (
            "SELECT seq FROM played_by WHERE player = (SELECT player FROM players WHERE name = ?) "
            "AND seq <= ? ORDER BY seq"
        )
        return [int(seq) for (seq,) in self.query(sql, player, last)]

    def quarantined(self) -> frozenset[str]:
        """Return the players whose games are not trained on."""
        return frozenset(
            readable(name) for (name,) in self.query("SELECT CAST(name AS BLOB) FROM quarantine")
        )

    # ---- Rows ----------------------------------------------------------------------------------------

    def bounds(self, wanted: Range) -> tuple[int, int]:
        """Return the numbers of the first and the last game in `wanted`."""
        # Games that arrive while the caller reads are left out; otherwise reading might never end.
        newest = self.span()[1]
        last = min(wanted.last or newest, newest)
        first = wanted.first
        if wanted.newest:
            # The game before the newest ones, if there is one.
            sql = "SELECT seq FROM games WHERE seq <= ? ORDER BY seq DESC LIMIT 1 OFFSET ?"
            before = self.query(sql, last, wanted.newest)
            first = max(first, int(before[0][0]) + 1 if before else 0)
        return first, last

    def _select(self, where: str, *bounds: int | bytes, with_data: bool = True) -> Iterator[Stored]:
        columns = f"{COLUMNS}, {DATA}" if with_data else COLUMNS
        if with_data:
            where = f"{HAS_RECORD} AND {where}"
        with reading(self.path):
            for row in self._execute(f"SELECT {columns} FROM games WHERE {where}", bounds):
                yield Stored.of(row)

    def _with_records(self, game: Game, rows: Iterable[Stored]) -> Iterator[tuple[Stored, GameRecord]]:
        for stored in rows:
            try:
                record = stored.record(game)
            except BadRecord as error:
                self.damaged.note(stored, error)
                continue
            yield stored, record


def game_of(run: RunFolder) -> str:
    """Return the name of a run's game. A run that has only imported games has no run.json yet; then the store
    names the game. Raises Fatal(BAD_DATA) if neither does."""
    if run.about.is_file() or not run.games.is_file():
        return str(run.describe()["game"])
    with closing(StoreReader(run.games)) as games:
        return games.game


def open_games(run: str, runs: Path) -> StoreReader:
    """Return the games of the run in folder `run`, or called `run` in `runs`. Raises Fatal(BAD_DATA) if there
    are none."""
    folder = run_named(run, runs)
    if not folder.games.is_file():
        away = folder.kept_elsewhere("trainer")
        why = f"here: {away}" if away else f"yet: the trainer makes {folder.games}"
        raise Fatal(f"the run {folder.path} has no games {why}", Exit.BAD_DATA)
    return StoreReader(folder.games)
