"""A stretch: finished games that follow each other, summed up to the few numbers that alerts look at."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from diagnostics.roots import RootSums
from diagnostics.variety import Variety
from games.movers import Signs
from protocol.records import GameRecord

SATURATED = 0.99
"""A root value beyond this, either way, says that the game is decided."""
END_PLIES = 4
"""Last plies of a game whose values are not looked at: a search that sees the mate is right to be sure."""


@dataclass
class Stretch:
    """Sums over some games."""

    games: int = 0
    draws: int = 0
    """However they came about, the cap on the length included."""
    plies: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    """Games by how they ended."""
    values: int = 0
    """Root values looked at: all but those of the last END_PLIES of each game."""
    saturated: int = 0
    """Of these, how many lie beyond SATURATED."""
    saturated_wrong: int = 0
    """Of those, how many named another result than the game's."""
    version: int = 0
    """Newest weights that played in it."""
    untrained: int = 0
    """Games that the network before all training (version 0) has begun."""
    roots: RootSums = field(default_factory=RootSums)
    variety: Variety = field(default_factory=Variety)

    def add(self, record: GameRecord, movers: Signs) -> None:
        """Count one more game; `movers` int8[plies]: +1 where the first player moves, else -1."""
        self.games += 1
        self.draws += record.outcome == 0
        self.plies += record.plies
        self.reasons[record.reason] += 1
        self.version = max(self.version, int(record.versions.max()))
        self.untrained += int(record.versions[0]) == 0
        self.roots.add(record)
        self.variety.add(record)
        values = record.root_values[: max(0, record.plies - END_PLIES)]
        sure = np.flatnonzero(np.abs(values) > SATURATED)
        self.values += len(values)
        self.saturated += len(sure)
        if len(sure):
            said = np.sign(values[sure]) * movers[sure]
            self.saturated_wrong += int(np.count_nonzero(said != record.outcome))

    def share(self, reason: str) -> float:
        """Of the games that ended so."""
        return self.reasons[reason] / max(1, self.games)

    @property
    def draw_share(self) -> float:
        return self.draws / max(1, self.games)

    @property
    def mean_plies(self) -> float:
        return self.plies / max(1, self.games)

    @property
    def saturated_share(self) -> float:
        return self.saturated / max(1, self.values)

    @property
    def wrong_share(self) -> float:
        """Of the saturated values, those that were wrong."""
        return self.saturated_wrong / max(1, self.saturated)
