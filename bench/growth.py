"""What grows with a run: the search with 1 to 1,024 games in flight, the store with 10^4 to 10^6 games.

Search: leaves a second of processor time with a network that costs nothing, in turns. Store: processor time
of a commit of 256 games and the pages that it writes, and of reading the newest 1,000, at each size. The
store only grows, so its sizes cannot be measured in turns: read those ratios with that in mind.
"""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import apsw
import numpy as np

from bench.random_games import random_game
from bench.search import coroutine_path
from bench.stored_games import entry
from bench.turns import Spread, in_turns, ratio
from games import get_game
from store.reader import Range, StoreReader
from store.sqlite import Entry, Store

GAMES_IN_FLIGHT = (1, 16, 64, 256, 1024)
STORED = (10_000, 100_000, 1_000_000)
DISTINCT = 200
COMMIT, READ, REPEATS = 256, 1000, 20


def search_figures(game_name: str) -> dict[str, float]:
    """Leaves/s for each number of games in flight, as shares of those with 256."""
    sides = {str(games): partial(coroutine_path, game_name, games) for games in GAMES_IN_FLIGHT}
    coroutine_path(game_name, 16, seconds=0.5)  # compiled
    found = in_turns(sides)
    for name, rates in found.items():
        share = ratio(rates, found["256"])
        print(
            f"  {game_name}, {name:>5} games: {Spread.of(rates).text()} leaves/s, {share.text('.2f')} of 256"
        )
    return {
        f"{game_name}_{name}": round(ratio(rates, found["256"]).median, 2) for name, rates in found.items()
    }


def fresh(records: list[Entry]) -> list[Entry]:
    """The same games under new names."""
    return [dataclasses.replace(record, uid=os.urandom(16)) for record in records]


def processor_seconds(action: Callable[[], object]) -> Spread:
    """Of one call, over REPEATS calls."""
    taken = []
    for _ in range(REPEATS):
        begin = time.process_time()
        action()
        taken.append(time.process_time() - begin)
    return Spread.of(taken)


def pages_written(store: Store) -> int:
    """Pages that this store has written so far."""
    return int(store._connection.status(apsw.SQLITE_DBSTATUS_CACHE_WRITE)[0])


def read_newest(path: Path, count: int) -> None:
    """Read and unpack the newest READ of `count` games."""
    reader = StoreReader(path)
    for stored in reader.rows(Range(count - READ + 1, count)):
        stored.unpacked()
    reader.close()


def store_figures(folder: Path) -> dict[str, float]:
    """Milliseconds of a commit and of a read, at each size."""
    game, rng = get_game("connect_four"), np.random.default_rng(1)
    some = [entry(random_game(game, rng, simulations=64)) for _ in range(DISTINCT)]
    many = (some * (COMMIT // DISTINCT + 1))[:COMMIT]
    store, figures, count = Store(folder / "games.db", game.name), {}, 0
    for size in STORED:
        while count < size - REPEATS * COMMIT:
            store.commit(fresh(many))
            count += COMMIT
        pages = pages_written(store)
        commit = processor_seconds(lambda: store.commit(fresh(many)))
        pages = (pages_written(store) - pages) // REPEATS
        count += REPEATS * COMMIT
        read = processor_seconds(partial(read_newest, folder / "games.db", count))
        print(f"  {count:>9,} games: commit {commit.text('.4f')} s, {pages} pages, read {read.text('.4f')} s")
        figures[f"commit_ms_{size}"] = round(commit.median * 1e3, 1)
        figures[f"commit_pages_{size}"] = pages
        figures[f"read_ms_{size}"] = round(read.median * 1e3, 1)
    store.close()
    return figures


def run() -> dict[str, float]:
    """Shares of 256 games in flight; milliseconds by stored games."""
    figures = {**search_figures("connect_four"), **search_figures("chess")}
    with TemporaryDirectory(dir=".") as folder:
        return figures | store_figures(Path(folder))
