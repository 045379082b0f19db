"""Reading the games of a run, beside a trainer that writes: in order of arrival or by uid."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from games.spec import Game
from protocol.records import BadRecord, GameRecord
from store.rows import COLUMNS, DATA, Damaged, Stored, reading
from store.sqlite import connect

ROWS_AT_A_TIME = 256
"""Games read in one transaction: while one is open, the write-ahead log cannot begin anew."""
PAGE = 4096
"""Games a query, where only their length is asked for."""


class StoreReader:
    """Reads stored games in order, beside a running writer. One thread at a time may use it.

    A row that is damaged is left out, named in the log and counted in `damaged`. Raises Fatal (BAD_DATA) when
    the file itself is.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.damaged = Damaged()
        with reading(path):
            self._connection = connect(path, read_only=True)

    def first_of_newest(
        self, positions: int, last: int, counts: Callable[[bytes], bool] = lambda _: True
    ) -> int:
        """`seq` from which on the games up to `last` hold at least `positions` positions, or 1.

        Only games whose uid `counts` and that are trained on are counted.
        """
        total = 0
        sql = (
            "SELECT seq, CAST(uid AS BLOB), CAST(plies AS INTEGER) FROM games WHERE seq <= ? "
            "ORDER BY seq DESC LIMIT ?"
        )
        # In pages: a reader that reads for long keeps SQLite from folding its log back into the file.
        while rows := list(self._rows(sql, last, PAGE)):
            old = self.old_between(rows[-1][0], last)
            for seq, uid, plies in rows:
                total += plies if counts(uid) and seq not in old else 0
                if total >= positions:
                    return int(seq)
            last = rows[-1][0] - 1
        return 1

    def games(self, first: int, last: int) -> Iterator[tuple[int, bytes]]:
        """`(seq, record)` of the games `first .. last`, oldest first; their bytes are those that came."""
        for stored in self._in_order(first, last):
            try:
                yield stored.seq, stored.unpacked()
            except BadRecord as error:
                self.damaged.note(stored, error)

    def records(self, game: Game, first: int, last: int) -> Iterator[tuple[int, GameRecord]]:
        """`(seq, record)` of the games `first .. last`, oldest first; all are whole and of `game`."""
        for stored in self._in_order(first, last):
            try:
                yield stored.seq, stored.record(game)
            except BadRecord as error:
                self.damaged.note(stored, error)

    def _in_order(self, first: int, last: int) -> Iterator[Stored]:
        """No transaction is open between two games, however long the reader takes over them."""
        page = "seq BETWEEN ? AND ? ORDER BY seq LIMIT ?"
        while rows := list(self._stored(page, first, last, ROWS_AT_A_TIME)):
            yield from rows
            first = rows[-1].seq + 1

    def old_between(self, first: int, last: int) -> frozenset[int]:
        """`seq` of those games among `first .. last` that are not trained on. None in a store of an older
        version that no trainer has opened since."""
        if not list(self._rows("SELECT 1 FROM sqlite_master WHERE name = 'old_games'")):
            return frozenset()
        rows = self._rows("SELECT seq FROM old_games WHERE seq BETWEEN ? AND ?", first, last)
        return frozenset(int(seq) for (seq,) in rows)

    def count_between(self, first: bytes, end: bytes) -> int:
        """Games whose uids are from `first` up to but without `end`."""
        ((count,),) = self._rows("SELECT count(*) FROM games WHERE uid >= ? AND uid < ?", first, end)
        return int(count)

    def plies_between(self, first: bytes, end: bytes) -> list[tuple[bytes, int]]:
        """`(uid, plies)` of these games, by uid."""
        rows = self._rows(
            "SELECT uid, CAST(plies AS INTEGER) FROM games WHERE uid >= ? AND uid < ? ORDER BY uid",
            first,
            end,
        )
        return [(bytes(uid), int(plies)) for uid, plies in rows]

    def between(self, game: Game, first: bytes, end: bytes) -> Iterator[GameRecord]:
        """The records of these games, by uid; all are whole and of `game`."""
        for stored in self._stored("uid >= ? AND uid < ? ORDER BY uid", first, end):
            try:
                yield stored.record(game)
            except BadRecord as error:
                self.damaged.note(stored, error)

    def _stored(self, where: str, *bounds: int | bytes) -> Iterator[Stored]:
        return map(Stored.of, self._rows(f"SELECT {COLUMNS}, {DATA} FROM games WHERE {where}", *bounds))

    def _rows(self, sql: str, *bounds: int | bytes) -> Iterator[Any]:
        with reading(self._path):
            yield from self._connection.execute(sql, bounds)

    def close(self) -> None:
        self._connection.close()
