"""Figures that need whole records: openings, values, visits. Read from some games of each bin, evenly
spread."""

from __future__ import annotations

import bisect
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from diagnostics.roots import RootSums
from diagnostics.stretches import OPENINGS, Stretch, Variety
from games import get_game
from games.spec import Game
from games.stubs import Movers, Signs
from protocol.records import BadRecord, GameRecord
from report.bins import Binned
from store.reader import StoreReader

VALUE_BINS = 20
"""Bins of the root value over [-1, 1]."""


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
    for stored in games.numbered(_chosen(games, binned, most)):
        one = sums[binned.of_version(stored.version_max)]
        try:
            record = stored.record(game)
            movers = movers_of(record.start, record.actions)
        except (BadRecord, ValueError):
            damaged += 1
            continue
        add(one, record, movers)
        one.ages += _age(stored.seq, record, binned.first_game)
    return Sample(sums, damaged, plies)


_CHOSEN = (
    "SELECT seq FROM (SELECT seq, row_number() OVER (ORDER BY seq) - 1 AS at FROM games "
    "INDEXED BY games_totals WHERE version_max BETWEEN ? AND ? AND seq <= ?) WHERE at * ? % ? < ?"
)


def _chosen(games: StoreReader, binned: Binned, most: int) -> list[int]:
    """Numbers of at most `most` games of each bin, evenly spread over its games."""
    wanted: list[int] = []
    for one in binned.bins:
        count = min(most, one.games)
        wanted += (
            seq for (seq,) in games.query(_CHOSEN, one.first, one.last, one.high, count, one.games, count)
        )
    return sorted(wanted)


def add(sums: Sampled, record: GameRecord, movers: Signs) -> None:
    """Count a game. `movers` int8[plies of the game]: +1 where the first player moves, else -1."""
    sums.stretch.add(record, movers)
    searched = record.visited > 0
    values = record.root_values[searched]
    at = np.clip(((values + 1) * VALUE_BINS / 2).astype(np.int64), 0, VALUE_BINS - 1)
    sums.values += np.bincount(at, minlength=VALUE_BINS)
    sums.value_sums += np.bincount(at, values, VALUE_BINS)
    sums.outcome_sums += np.bincount(at, movers[searched] * record.outcome, VALUE_BINS).astype(np.int64)


def _age(seq: int, record: GameRecord, first_game: dict[int, int]) -> float:
    """Sum over plies of the games finished since the first game of the ply's weights."""
    known = list(first_game)
    total = 0
    for version, plies in zip(*np.unique(record.versions, return_counts=True), strict=True):
        at = min(bisect.bisect_left(known, int(version)), len(known) - 1)
        total += int(plies) * max(0, seq - first_game[known[at]])
    return float(total)
