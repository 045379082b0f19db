"""Figures of each player's games, compared with those of all others.

A player that makes games up has to imitate what follows from search and network by itself: how long games
are, how often they are resigned, how well the search foresees the end. None of these figures proves anything.
Each suggests whose games a person should look at, who may then put the player into quarantine.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from azselfplay.diagnostics.stretches import OPENINGS
from azselfplay.games.spec import RESIGNATION, Game
from azselfplay.games.stubs import Movers
from protocol.records import GameRecord

FIGURES = ("lengths", "resignations", "value errors")
NEWEST_GAMES = 20_000
"""Newest games of all players that are compared."""
LEAST_GAMES = 30
"""Games that a player and the others must have for a comparison."""
MOST_SET_ASIDE = 20
"""Most players that are named, because each costs another comparison of all the rest."""
SURE = 6.0
"""Standard errors by which a mean must differ to count as different. Many players are compared again and
again, and games of one network resemble each other more than independent ones would."""
MATTERS = {"lengths": 0.25, "resignations": 0.1, "value errors": 0.1}
"""Least difference that matters: lengths as a share of the others' mean, resignations as a share of games,
value errors (squared, 0..4) directly."""


class Seen(NamedTuple):
    """One game, as far as it matters for comparing players."""

    player: str
    lengths: float
    """Plies."""
    resignations: float
    """1 if it was resigned."""
    value_errors: float
    """Squared difference of the root value at the end of the opening and the outcome; NaN without one."""


@dataclass
class Sums:
    """Sums of one figure over games."""

    count: int = 0
    total: float = 0.0
    squares: float = 0.0

    def add(self, value: float, sign: int = 1) -> None:
        """Add a value; `sign` -1 removes it again."""
        if not math.isnan(value):
            self.count += sign
            self.total += sign * value
            self.squares += sign * value * value

    def __sub__(self, other: Sums) -> Sums:
        """The sums of the other games."""
        return Sums(self.count - other.count, self.total - other.total, self.squares - other.squares)

    @property
    def mean(self) -> float:
        return self.total / self.count if self.count else math.nan

    @property
    def variance_of_mean(self) -> float:
        """Squared standard error of the mean."""
        if self.count < 2:
            return math.inf
        # Rounding may leave a little less than nothing.
        spread = max(0.0, self.squares / self.count - self.mean**2)
        # The unbiased variance over the number of games.
        return spread / (self.count - 1)


@dataclass
class _Player:
    games: int = 0
    sums: dict[str, Sums] = field(default_factory=lambda: {name: Sums() for name in FIGURES})


class Compared(NamedTuple):
    """A figure of one player compared with the others'."""

    mean: float
    others: float
    z: float
    """Difference in standard errors (Welch); NaN where there are too few games."""
    differs: bool
    """Whether it differs certainly, and by so much that it matters."""


class PlayerBook:
    """The newest games by player. One thread at a time may use it."""

    def __init__(self, game: Game, newest: int = NEWEST_GAMES) -> None:
        self._movers = Movers(game)
        self._opening = min(OPENINGS[0], game.max_plies // 2)
        self._newest = newest
        self._games: deque[Seen] = deque()
        self._players: dict[str, _Player] = {}
        self._all = _Player()

    def on_games(self, played: Iterable[tuple[GameRecord, str]]) -> None:
        """Add games with their players, oldest first; all follow the rules."""
        for record, player in played:
            # The first search after the opening: later ones all know the end.
            searched = np.flatnonzero(record.visited[self._opening :])
            error = math.nan
            if len(searched):
                ply = self._opening + int(searched[0])
                mover = int(self._movers(record.start, record.actions)[ply])
                error = (mover * float(record.root_values[ply]) - record.outcome) ** 2
            resigned = float(record.reason == RESIGNATION)
            self._count(Seen(player, float(record.plies), resigned, error), 1)
            if len(self._games) > self._newest:
                # Sums are kept by adding and removing: to go over all games each time would be slow.
                self._count(self._games.popleft(), -1)

    def _count(self, seen: Seen, sign: int) -> None:
        if sign > 0:
            self._games.append(seen)
        one = self._players.setdefault(seen.player, _Player())
        for counted in (one, self._all):
            counted.games += sign
            for name, value in zip(FIGURES, seen[1:], strict=True):
                counted.sums[name].add(value, sign)
        # Else the table of players would grow for ever.
        if not one.games:
            del self._players[seen.player]

    @property
    def players(self) -> dict[str, int]:
        """Number of games by player, most first."""
        return {
            name: one.games for name, one in sorted(self._players.items(), key=lambda item: -item[1].games)
        }

    def compared(self, player: str) -> dict[str, Compared]:
        """Comparisons by the names of FIGURES."""
        sums = self._players[player].sums
        return {name: compare(name, sums[name], self._all.sums[name] - sums[name]) for name in FIGURES}

    def who_differs(self) -> dict[str, list[str]]:
        """By the names of FIGURES, the players whose games certainly differ, the most different first."""
        # Of a few games any figure may be far off.
        enough = {player: one for player, one in self._players.items() if one.games >= LEAST_GAMES}
        differs: dict[str, list[str]] = {}
        for name in FIGURES:
            left = {player: one.sums[name] for player, one in enough.items()}
            pool, found = self._all.sums[name], differs.setdefault(name, [])
            # Next to one odd player all look odd, so the oddest leaves before the rest are compared.
            while len(found) < MOST_SET_ASIDE:
                compared = {player: compare(name, mine, pool - mine) for player, mine in left.items()}
                odd = {player: abs(one.z) for player, one in compared.items() if one.differs}
                if not odd:
                    break
                worst = max(odd, key=odd.__getitem__)
                found.append(worst)
                pool -= left.pop(worst)
        return differs


def compare(name: str, mine: Sums, others: Sums) -> Compared:
    """A figure of one player compared with that of all others."""
    if min(mine.count, others.count) < LEAST_GAMES:
        return Compared(mine.mean, others.mean, math.nan, differs=False)
    difference = mine.mean - others.mean
    error = math.sqrt(mine.variance_of_mean + others.variance_of_mean)
    z = difference / error if error else (math.copysign(math.inf, difference) if difference else 0.0)
    # Ten plies are much in tic-tac-toe and little in Go.
    scale = others.mean if name == "lengths" else 1.0
    return Compared(mine.mean, others.mean, z, abs(z) >= SURE and abs(difference) >= MATTERS[name] * scale)


def rates(times: Sequence[tuple[str, float]]) -> dict[str, float]:
    """Games per hour by player, over the time from the first to the last of all games `(player, seconds)`.
    Empty for games that all came at one moment, as one game does."""
    moments = [time for _, time in times] or [0.0]
    seconds = max(moments) - min(moments)
    counts = Counter(player for player, _ in times if seconds)
    return {player: 3600 * count / max(seconds, 1.0) for player, count in counts.items()}
