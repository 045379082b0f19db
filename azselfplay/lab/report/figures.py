"""Figures of a run's games, in bins of neighbouring weights versions with enough games in each bin.

Making the bins reads only columns of the store's index, so a run with millions of games takes seconds.
Values need whole records; an evenly spread sample of these is read from each bin. A game counts for the
newest weights that played in it, as in `azplay games stats`.
"""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from azselfplay.games import get_game
from azselfplay.games.stubs import Movers, Signs
from azselfplay.store.reader import StoreReader
from azselfplay.store.sqlite import IMPORTED
from protocol.records import BadRecord, GameRecord

BINS = 24
"""Approximate number of bins on an axis; at most twice as many."""

SMALLEST = 30
"""Least number of games in a bin, if there are as many."""

VALUE_BINS = 20
"""Bins of the root value over [-1, 1]."""

_CHOSEN = (
    "SELECT seq FROM (SELECT seq, row_number() OVER (ORDER BY seq) - 1 AS at FROM games "
    f"INDEXED BY games_totals WHERE source != '{IMPORTED}' AND version_max BETWEEN ? AND ? AND seq <= ?) "
    "WHERE at * ? % ? < ?"
)
"""Imported games are left out here and in `by_version`, because no version has played them."""


@dataclass
class Bin:
    """Games of the versions `first .. last`."""

    first: int
    last: int
    high: int
    """Number of the newest game; games of other bins may lie in between."""
    games: int = 0
    outcomes: Counter[int] = field(default_factory=Counter)
    """Games by outcome for the first player."""
    reasons: Counter[str] = field(default_factory=Counter)
    sources: Counter[str] = field(default_factory=Counter)
    plies: int = 0
    """Total plies of all games."""

    @property
    def label(self) -> str:
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"

    def __add__(self, other: Bin) -> Bin:
        """Combine the games of both."""
        return Bin(
            first=min(self.first, other.first),
            last=max(self.last, other.last),
            high=max(self.high, other.high),
            games=self.games + other.games,
            outcomes=self.outcomes + other.outcomes,
            reasons=self.reasons + other.reasons,
            sources=self.sources + other.sources,
            plies=self.plies + other.plies,
        )


def by_version(games: StoreReader) -> list[Bin]:
    """Return all games of self-play, one bin for each weights version, oldest first."""
    rows = games.query(
        "SELECT version_max, source, outcome, reason, plies, count(*), max(seq) FROM games "
        f"WHERE source != '{IMPORTED}' GROUP BY version_max, source, outcome, reason, plies"
    )
    found: dict[int, Bin] = {}
    for version, source, outcome, reason, plies, number, high in rows:
        one = found.setdefault(version, Bin(version, version, high))
        one.high = max(one.high, high)
        one.games += number
        one.outcomes[outcome] += number
        one.reasons[reason] += number
        one.sources[source] += number
        one.plies += plies * number
    return [found[version] for version in sorted(found)]


def merged(versions: Sequence[Bin], most: int = BINS) -> list[Bin]:
    """Return bins with about equally many games. `versions` has one bin per version, oldest first."""
    total = sum(one.games for one in versions)
    # Rounded up: one bin fewer is better than a bin with too few games.
    wanted = max(SMALLEST, -(-total // most))
    found: list[Bin] = []
    for one in versions:
        last = found[-1].games if found else wanted
        # Add a version to the last bin if this brings the bin nearer to `wanted` than leaving it out.
        if last < SMALLEST or (last < wanted and last + one.games / 2 <= wanted):
            found[-1] += one
        else:
            found.append(one)
    if len(found) > 1 and found[-1].games < SMALLEST:
        # The last version may just have begun.
        newest = found.pop()
        found[-1] += newest
    return found


@dataclass
class Sampled:
    """Sums over the sampled games of a bin."""

    games: int = 0
    values: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(VALUE_BINS, np.int64))
    """[VALUE_BINS] searched plies by root value; the sums below have the same bins."""
    value_sums: npt.NDArray[np.float64] = field(default_factory=lambda: np.zeros(VALUE_BINS))
    outcome_sums: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(VALUE_BINS, np.int64))
    """Sums of the outcome for the side to move."""


def take_sample(games: StoreReader, bins: Sequence[Bin], most: int) -> tuple[list[Sampled], int]:
    """Read at most `most` games of each bin, a page at a time. Returns the sums of each bin, and how many
    damaged games were left out."""
    game = get_game(games.game)
    movers_of = Movers(game)
    sums, damaged = [Sampled() for _ in bins], 0
    chosen: list[int] = []  # numbers of the games, evenly spread over those of each bin
    for part in bins:
        count = min(most, part.games)
        rows = games.query(_CHOSEN, part.first, part.last, part.high, count, part.games, count)
        chosen += (seq for (seq,) in rows)
    lasts = [one.last for one in bins]
    for stored in games.numbered(sorted(chosen)):
        try:
            record = stored.record(game)
            movers = movers_of(record.start, record.actions)
        # A report must also work for runs that went wrong.
        except (BadRecord, ValueError):
            damaged += 1
            continue
        # A game that was stored meanwhile may have newer weights than all bins.
        add(sums[min(bisect.bisect_left(lasts, stored.version_max), len(bins) - 1)], record, movers)
    return sums, damaged


def add(sums: Sampled, record: GameRecord, movers: Signs) -> None:
    """Count a game. `movers` int8[plies of the game]: +1 where the first player moves, else -1."""
    sums.games += 1
    # Plies without a search have no search value.
    searched = record.visited > 0
    values = record.root_values[searched]
    at = np.clip(((values + 1) * VALUE_BINS / 2).astype(np.int64), 0, VALUE_BINS - 1)
    sums.values += np.bincount(at, minlength=VALUE_BINS)
    sums.value_sums += np.bincount(at, values, VALUE_BINS)
    sums.outcome_sums += np.bincount(at, movers[searched] * record.outcome, VALUE_BINS).astype(np.int64)
