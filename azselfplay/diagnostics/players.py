"""Figures of each player's games, compared with those of all others.

A player that fakes games would have to imitate figures that follow naturally from search and network: how
long games are, how often they are resigned, how well the search predicts the outcome. None of these figures
proves anything. They suggest whose games a person should look at; that person may then put the player into
quarantine.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np

from azselfplay.diagnostics.stretches import OPENINGS
from azselfplay.games.spec import RESIGNATION, Game
from azselfplay.games.stubs import Movers
from protocol.records import GameRecord

FIGURES = ("lengths", "resignations", "value errors")
LEAST_GAMES = 30
"""Least number of games that a player, and all others together, must have for a comparison."""
MOST_SET_ASIDE = 20
"""Most players that are named, because each costs another comparison of all the rest."""
SURE = 6.0
"""Standard errors by which a mean must differ to count as different. The limit is high because many players
are compared again and again, and games of one network resemble each other more than independent games."""
MATTERS = {"lengths": 0.25, "resignations": 0.1, "value errors": 0.1}
"""Least difference that matters: lengths as a share of the others' mean, resignations as a share of games,
value errors (squared, 0..4) directly."""

LONGEST_GAP = 600.0
"""Most seconds between two games that count for a rate."""
SHORTEST = 10.0
"""Least seconds that up to 100 games count as, because games of one commit come within milliseconds. More
games may really have come fast: 1,000 count as at least a second."""
T = TypeVar("T")


@dataclass
class Sums:
    """Sums of one figure over games."""

    count: int = 0
    total: float = 0.0
    squares: float = 0.0

    def add(self, value: float) -> None:
        """Add a value; NaN counts nothing."""
        if not math.isnan(value):
            self.count += 1
            self.total += value
            self.squares += value * value

    def __sub__(self, other: Sums) -> Sums:
        """Return the sums over the remaining games."""
        return Sums(self.count - other.count, self.total - other.total, self.squares - other.squares)

    @property
    def mean(self) -> float:
        return self.total / self.count if self.count else math.nan

    @property
    def variance_of_mean(self) -> float:
        """Squared standard error of the mean."""
        if self.count < 2:
            return math.inf
        # Rounding errors may make the difference slightly negative.
        spread = max(0.0, self.squares / self.count - self.mean**2)
        # This equals the unbiased variance divided by the number of games.
        return spread / (self.count - 1)


class Compared(NamedTuple):
    """A figure of one player compared with the others'."""

    mean: float
    z: float
    """Difference in standard errors (Welch); NaN where there are too few games."""
    differs: bool
    """Whether the difference is significant (SURE) and large enough to matter (MATTERS)."""


class PlayerBook:
    """Games by player."""

    def __init__(self, game: Game) -> None:
        self._movers = Movers(game)
        self._opening = min(OPENINGS[0], game.max_plies // 2)
        self._players: defaultdict[str, list[Sums]] = defaultdict(lambda: [Sums() for _ in FIGURES])
        """In the order of FIGURES; every game has a length."""
        self._all = [Sums() for _ in FIGURES]

    def on_game(self, record: GameRecord, player: str) -> None:
        """Add a game that follows the rules."""
        # Take the first search after the opening, because later searches come closer to knowing the end.
        searched = np.flatnonzero(record.visited[self._opening :])
        error = math.nan
        if len(searched):
            ply = self._opening + int(searched[0])
            mover = int(self._movers(record.start, record.actions)[ply])
            error = (mover * float(record.root_values[ply]) - record.outcome) ** 2
        values = float(record.plies), float(record.reason == RESIGNATION), error
        for counted in (self._players[player], self._all):
            for sums, value in zip(counted, values, strict=True):
                sums.add(value)

    @property
    def players(self) -> dict[str, int]:
        """Number of games by player, most first."""
        counts = {name: sums[0].count for name, sums in self._players.items()}
        return dict(sorted(counts.items(), key=lambda item: -item[1]))

    def compared(self, player: str) -> dict[str, Compared]:
        """Comparisons by the names of FIGURES."""
        columns = zip(FIGURES, self._players[player], self._all, strict=True)
        return {name: compare(name, mine, every - mine) for name, mine, every in columns}

    def who_differs(self) -> dict[str, list[str]]:
        """Return, by the names of FIGURES, the players whose games differ significantly, the most different
        first."""
        # With few games, any figure may be far off by chance.
        enough = {player: sums for player, sums in self._players.items() if sums[0].count >= LEAST_GAMES}
        differs: dict[str, list[str]] = {}
        for at, (name, pool) in enumerate(zip(FIGURES, self._all, strict=True)):
            left = {player: sums[at] for player, sums in enough.items()}
            found = differs.setdefault(name, [])
            # One odd player makes all others look odd, so the oddest is removed before the rest are compared
            # again.
            while len(found) < MOST_SET_ASIDE:
                compared = {player: compare(name, mine, pool - mine) for player, mine in left.items()}
                odd = {player: abs(one.z) for player, one in compared.items() if one.differs}
                if not odd:
                    break
                worst = max(odd, key=odd.__getitem__)
                found.append(worst)
                pool = pool - left.pop(worst)
        return differs


def compare(name: str, mine: Sums, others: Sums) -> Compared:
    """Compare a figure of one player with that of all others."""
    if min(mine.count, others.count) < LEAST_GAMES:
        return Compared(mine.mean, math.nan, differs=False)
    difference = mine.mean - others.mean
    error = math.sqrt(mine.variance_of_mean + others.variance_of_mean)
    z = difference / error if error else (math.copysign(math.inf, difference) if difference else 0.0)
    # Lengths are compared in relation to the mean: ten plies are much in tic-tac-toe and little in Go.
    scale = others.mean if name == "lengths" else 1.0
    return Compared(mine.mean, z, abs(z) >= SURE and abs(difference) >= MATTERS[name] * scale)


def rates(times: Sequence[tuple[T, float]], until: float | None = None) -> dict[T, float]:
    """Return games per hour by player, over the time from the first of all games `(player, seconds)`, in the
    order of the store, to `until` (None: to the last one). The result is empty if that is no time, for
    example if there is only one game."""
    ends = [time for _, time in times] + ([] if until is None else [until])
    # A longer gap is a pause, or a clock that was set; one below 0 is the latter, too.
    gaps = (later - earlier for earlier, later in itertools.pairwise(ends))
    seconds = sum(min(max(gap, 0.0), LONGEST_GAP) for gap in gaps)
    counts = Counter(player for player, _ in times if seconds)
    seconds = max(seconds, SHORTEST / max(1.0, len(times) / 100))
    return {player: 3600 * count / seconds for player, count in counts.items()}
