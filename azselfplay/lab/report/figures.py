"""Figures of a run's games, in bins of neighbouring weights versions with enough games in each to count.

The bins read only columns of the store's index, so a run of millions of games takes seconds. Openings, values
and visits need whole records, of which some are read from each bin, evenly spread. A game counts for the
newest weights that played in it, as in `azplay games stats`.
"""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from azselfplay.diagnostics.stretches import OPENINGS, RootSums, Stretch, Variety, percentile_of
from azselfplay.games import get_game
from azselfplay.games.spec import Game
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
"""Imported games are left out here and in `by_version`: no version has played them."""


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
    """All games of self-play, one bin for each weights version, oldest first."""
    rows = games.query(
        "SELECT version_max, source, outcome, reason, plies, count(*), min(seq), max(seq) FROM games "
        f"WHERE source != '{IMPORTED}' GROUP BY version_max, source, outcome, reason, plies"
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
    # Rounded up: better a bin less than one of too few games.
    wanted = max(SMALLEST, -(-total // most))
    found: list[Bin] = []
    for one in versions:
        last = found[-1].games if found else wanted
        # A version is added as long as that brings the bin nearer to `wanted` than to end it would.
        if last < SMALLEST or (last < wanted and last + one.games / 2 <= wanted):
            found[-1] += one
        else:
            found.append(one)
    if len(found) > 1 and found[-1].games < SMALLEST:
        # The last version may just have begun.
        newest = found.pop()
        found[-1] += newest
    return found


def first_games(rows: Sequence[tuple[int, int]]) -> dict[int, int]:
    """By version, the first game of that version or a newer one. `rows`: (version, its first game), oldest
    version first."""
    found: dict[int, int] = {}
    first = None
    # From the newest back, so that each knows of those after it.
    for version, low in reversed(rows):
        first = low if first is None else min(first, low)
        found[version] = first
    return dict(sorted(found.items()))


@dataclass
class Sampled:
    """Sums over the sampled games of a bin."""

    stretch: Stretch = field(default_factory=Stretch)
    ages: float = 0.0
    """Sum over plies of the games finished since the first game of the ply's weights."""
    values: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(VALUE_BINS, np.int64))
    """[VALUE_BINS] searched plies by root value; the sums below have the same bins."""
    value_sums: npt.NDArray[np.float64] = field(default_factory=lambda: np.zeros(VALUE_BINS))
    outcome_sums: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(VALUE_BINS, np.int64))
    """Sums of the outcome for the side to move."""

    @property
    def games(self) -> int:
        return self.stretch.games

    @property
    def roots(self) -> RootSums:
        return self.stretch.roots

    @property
    def mean_age(self) -> float:
        return self.ages / max(1, self.stretch.plies)


@dataclass(frozen=True)
class Sample:
    """All sampled games of a run."""

    bins: list[Sampled]
    damaged: int
    opening_plies: int


def opening_plies(game: Game) -> int:
    """The length of an opening in plies: ten, or fewer in short games."""
    return min(OPENINGS[0], game.max_plies // 2)


def take_sample(games: StoreReader, binned: Binned, most: int) -> Sample:
    """Read at most `most` games of each bin, a page at a time."""
    game = get_game(games.game)
    movers_of, plies = Movers(game), opening_plies(game)
    lengths = (plies, OPENINGS[1])
    sums, damaged = [Sampled(Stretch(variety=Variety(lengths))) for _ in binned.bins], 0
    chosen: list[int] = []  # numbers of the games, evenly spread over those of each bin
    for part in binned.bins:
        count = min(most, part.games)
        rows = games.query(_CHOSEN, part.first, part.last, part.high, count, part.games, count)
        chosen += (seq for (seq,) in rows)
    known = list(binned.first_game)
    for stored in games.numbered(sorted(chosen)):
        one = sums[binned.of_version(stored.version_max)]
        try:
            record = stored.record(game)
            movers = movers_of(record.start, record.actions)
        # A report is also for runs that went wrong.
        except (BadRecord, ValueError):
            damaged += 1
            continue
        add(one, record, movers)
        for version, count in zip(*np.unique(record.versions, return_counts=True), strict=True):
            # A version without a game of its own counts like the next one that has.
            at = min(bisect.bisect_left(known, int(version)), len(known) - 1)
            one.ages += int(count) * max(0, stored.seq - binned.first_game[known[at]])
    return Sample(sums, damaged, plies)


def add(sums: Sampled, record: GameRecord, movers: Signs) -> None:
    """Count a game. `movers` int8[plies of the game]: +1 where the first player moves, else -1."""
    sums.stretch.add(record, movers)
    # Plies without a search have no value of one.
    searched = record.visited > 0
    values = record.root_values[searched]
    at = np.clip(((values + 1) * VALUE_BINS / 2).astype(np.int64), 0, VALUE_BINS - 1)
    sums.values += np.bincount(at, minlength=VALUE_BINS)
    sums.value_sums += np.bincount(at, values, VALUE_BINS)
    sums.outcome_sums += np.bincount(at, movers[searched] * record.outcome, VALUE_BINS).astype(np.int64)
