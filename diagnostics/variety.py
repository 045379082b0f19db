"""How different games are from each other: their lengths, and how many openings there are among them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from protocol.records import GameRecord

OPENINGS = (10, 20)
"""Plies that make an opening; a shorter game is one as a whole."""
PERCENTILES = (10, 50, 90)


def _no_openings() -> dict[int, set[int]]:
    return {plies: set() for plies in OPENINGS}


@dataclass
class Variety:
    """Of some games."""

    lengths: Counter[int] = field(default_factory=Counter)
    """Games by plies."""
    openings: dict[int, set[int]] = field(default_factory=_no_openings)
    """Hashes of the start position and the first moves, by how many plies."""

    def add(self, record: GameRecord) -> None:
        """Count one more game."""
        self.lengths[record.plies] += 1
        for plies, seen in self.openings.items():
            seen.add(hash((record.start, record.actions[:plies].tobytes())))

    @property
    def games(self) -> int:
        return self.lengths.total()

    def percentile(self, percent: int) -> int:
        """The shortest length that `percent` of the games do not exceed; 0 without games."""
        left = percent * self.games
        for plies, games in sorted(self.lengths.items()):
            left -= 100 * games
            if left <= 0:
                return plies
        return 0

    def unique(self, plies: int) -> float:
        """Different openings of so many plies, as a share of the games."""
        return len(self.openings[plies]) / max(1, self.games)
