"""Figures of a run's games, in bins of neighbouring weights versions with enough games in each bin.

Making the bins reads only columns of the store's index, so a run with millions of games takes seconds. A game
counts for the newest weights that played in it, as in `azplay games stats`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from azselfplay.store.reader import StoreReader
from azselfplay.store.sqlite import IMPORTED

BINS = 24
"""Approximate number of bins on an axis; at most twice as many."""

SMALLEST = 30
"""Least number of games in a bin, if there are as many."""


@dataclass
class Bin:
    """Games of the versions `first .. last`."""

    first: int
    last: int
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
            games=self.games + other.games,
            outcomes=self.outcomes + other.outcomes,
            reasons=self.reasons + other.reasons,
            sources=self.sources + other.sources,
            plies=self.plies + other.plies,
        )


def by_version(games: StoreReader) -> list[Bin]:
    """Return all games of self-play, one bin for each weights version, oldest first. Imported games are left
    out, because no version has played them."""
    rows = games.query(
        "SELECT version_max, source, outcome, reason, plies, count(*) FROM games "
        f"WHERE source != '{IMPORTED}' GROUP BY version_max, source, outcome, reason, plies"
    )
    found: dict[int, Bin] = {}
    for version, source, outcome, reason, plies, number in rows:
        one = found.setdefault(version, Bin(version, version))
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
