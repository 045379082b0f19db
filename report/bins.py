"""Games in bins of neighbouring weights versions, with enough games in each to count.

It reads only columns of the store's index, so a run of millions of games takes seconds. A game counts for the
newest weights that played in it, as in `azplay games stats`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from diagnostics.stretches import percentile_of
from store.reader import StoreReader

BINS = 24
"""Approximate number of bins on an axis; at most twice as many."""
SMALLEST = 30
"""Least number of games in a bin, if there are as many."""


@dataclass
class Bin:
    """Games of the versions `first .. last`."""

    first: int
    last: int
    low: int
    """Number of the oldest game."""
    high: int
    """Number of the newest game; games of other bins may lie in between."""
    games: int = 0
    outcomes: Counter[int] = field(default_factory=Counter)
    """Games by outcome for the first player."""
    reasons: Counter[str] = field(default_factory=Counter)
    sources: Counter[str] = field(default_factory=Counter)
    lengths: Counter[int] = field(default_factory=Counter)
    """Games by plies."""

    @property
    def label(self) -> str:
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"

    @property
    def plies(self) -> int:
        """Total plies of all games."""
        return sum(plies * games for plies, games in self.lengths.items())

    def percentile(self, percent: int) -> int:
        """Percentile of the lengths, plies; see `percentile_of`."""
        return percentile_of(self.lengths, percent)

    def __add__(self, other: Bin) -> Bin:
        """Combine the games of both."""
        return Bin(
            first=min(self.first, other.first),
            last=max(self.last, other.last),
            low=min(self.low, other.low),
            high=max(self.high, other.high),
            games=self.games + other.games,
            outcomes=self.outcomes + other.outcomes,
            reasons=self.reasons + other.reasons,
            sources=self.sources + other.sources,
            lengths=self.lengths + other.lengths,
        )


@dataclass(frozen=True)
class Binned:
    """All games of a run in bins, oldest first."""

    bins: list[Bin]
    first_game: dict[int, int]
    """By version: number of the first game in which this version or a newer one played."""

    def of_version(self, version: int) -> int:
        """Index of the bin that the version belongs to."""
        return next((i for i, one in enumerate(self.bins) if version <= one.last), len(self.bins) - 1)


def by_version(games: StoreReader) -> list[Bin]:
    """All games, one bin for each weights version, oldest first."""
    rows = games.query(
        "SELECT version_max, source, outcome, reason, plies, count(*), min(seq), max(seq) FROM games "
        "GROUP BY version_max, source, outcome, reason, plies"
    )
    found: dict[int, Bin] = {}
    for version, source, outcome, reason, plies, number, low, high in rows:
        one = found.setdefault(version, Bin(version, version, low, high))
        one.low, one.high = min(one.low, low), max(one.high, high)
        one.games += number
        one.outcomes[outcome] += number
        one.reasons[reason] += number
        one.sources[source] += number
        one.lengths[plies] += number
    return [found[version] for version in sorted(found)]


def read_bins(games: StoreReader, most: int = BINS) -> Binned:
    """Count all games."""
    versions = by_version(games)
    return Binned(merged(versions, most), first_games([(one.first, one.low) for one in versions]))


def merged(versions: Sequence[Bin], most: int) -> list[Bin]:
    """Bins with about equally many games. `versions` has one bin per version, oldest first."""
    total = sum(one.games for one in versions)
    wanted = max(SMALLEST, -(-total // most))
    found: list[Bin] = []
    for one in versions:
        if found and _belongs_to(found[-1], one, wanted):
            found[-1] += one
        else:
            found.append(one)
    if len(found) > 1 and found[-1].games < SMALLEST:
        newest = found.pop()
        found[-1] += newest
    return found


def _belongs_to(last: Bin, one: Bin, wanted: int) -> bool:
    """Whether the games of the next version, `one`, are added to the last bin so far."""
    return last.games < SMALLEST or (last.games < wanted and last.games + one.games / 2 <= wanted)


def first_games(rows: Sequence[tuple[int, int]]) -> dict[int, int]:
    """By version, the first game of that version or a newer one. `rows`: (version, its first game), oldest
    version first."""
    found: dict[int, int] = {}
    first = None
    for version, low in reversed(rows):
        first = low if first is None else min(first, low)
        found[version] = first
    return dict(sorted(found.items()))
