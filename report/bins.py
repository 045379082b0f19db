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
"""About so many bins on an axis, at most twice as many."""
SMALLEST = 30
"""Games in a bin, where there are as many."""


@dataclass
class Bin:
    """Games of the versions `first .. last`."""

    first: int
    last: int
    low: int
    """Number of the oldest game."""
    high: int
    """Number of the newest game; games of other bins may lie between."""
    games: int = 0
    outcomes: Counter[int] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    lengths: Counter[int] = field(default_factory=Counter)
    """Games by plies."""

    @property
    def label(self) -> str:
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"

    def percentile(self, percent: int) -> int:
        """Percentile of the lengths, plies; see `percentile_of`."""
        return percentile_of(self.lengths, percent)


@dataclass(frozen=True)
class Binned:
    """All games of a run in bins, oldest first."""

    bins: list[Bin]
    first_game: dict[int, int]
    """By version: number of the first game that this version or a newer one played in."""

    def of_version(self, version: int) -> int:
        """Index of the bin that the version belongs to."""
        return next((i for i, one in enumerate(self.bins) if version <= one.last), len(self.bins) - 1)


def read_bins(games: StoreReader, most: int = BINS) -> Binned:
    """Count all games. Games that arrive meanwhile may be in some counts and not in others."""
    rows = games.query("SELECT version_max, count(*), min(seq), max(seq) FROM games GROUP BY version_max")
    bins = merged([Bin(v, v, int(low), int(high), int(n)) for v, n, low, high in rows], most)
    binned = Binned(bins, first_games([(v, low) for v, _, low, _ in rows]))
    if bins:
        _count(games, binned)
    return binned


def merged(versions: Sequence[Bin], most: int) -> list[Bin]:
    """Bins of about equal numbers of games. `versions` has one bin a version, oldest first."""
    total = sum(one.games for one in versions)
    wanted = max(SMALLEST, -(-total // most))
    found: list[Bin] = []
    for one in versions:
        if found and found[-1].games < wanted and found[-1].games + one.games / 2 <= wanted:
            last = found[-1]
            last.last, last.games = one.last, last.games + one.games
            last.low, last.high = min(last.low, one.low), max(last.high, one.high)
        else:
            found.append(Bin(one.first, one.last, one.low, one.high, one.games))
    return found


def first_games(rows: Sequence[tuple[int, int]]) -> dict[int, int]:
    """By version, the first game of that version or a newer one. `rows`: (version, its first game), oldest
    version first."""
    found: dict[int, int] = {}
    first = None
    for version, low in reversed(rows):
        first = low if first is None else min(first, low)
        found[version] = first
    return dict(sorted(found.items()))


def _count(games: StoreReader, binned: Binned) -> None:
    rows = games.query(
        "SELECT version_max, outcome, reason, plies, count(*) FROM games "
        "GROUP BY version_max, outcome, reason, plies"
    )
    for one in binned.bins:
        one.games = 0
    for version, outcome, reason, plies, number in rows:
        one = binned.bins[binned.of_version(version)]
        one.games += number
        one.outcomes[outcome] += number
        one.reasons[reason] += number
        one.lengths[plies] += number
