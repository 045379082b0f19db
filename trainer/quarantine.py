"""Players whose games are stored and not trained on, and what the accounts of training lack because of them.

At any time `SampleBudget` and what is taken out make together what the budget would be without a quarantine:
a game that comes counts in one or the other. So a release gives back exactly what is missing. What is taken
out is part of each checkpoint, as the budget is; a restart compares it with the store and catches up.

Steps that were made are not unmade. If the samples so far are more than what the remaining positions allow,
training waits until new positions have paid for them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trainer.pacing import SampleBudget


@dataclass
class Taken:
    """What the budget lacks because of one player."""

    positions: int = 0
    """That would be learned from."""
    allowed: float = 0.0
    """Samples that these would allow."""


class Quarantine:
    """The players, and the accounts."""

    def __init__(self, budget: SampleBudget) -> None:
        self._budget = budget
        self._taken: dict[str, Taken] = {}
        self.players: frozenset[str] = frozenset()
        """Those who are taken out. Another thread may look at it: it is replaced and never changed."""

    def restore(self, taken: Mapping[str, Sequence[float]]) -> None:
        """As `as_dict` gave it; the budget stands as it stood then."""
        self._taken = {name: Taken(int(positions), allowed) for name, (positions, allowed) in taken.items()}
        self.players = frozenset(self._taken)

    def as_dict(self) -> dict[str, tuple[int, float]]:
        return {name: (taken.positions, taken.allowed) for name, taken in self._taken.items()}

    def take(self, player: str, positions: int) -> None:
        """Take out a player with so many positions in the budget."""
        self._taken[player] = Taken()
        self.players |= {player}
        self.add(player, positions)
        self._budget.learned_from -= positions
        self._budget.allowed -= self._taken[player].allowed

    def add(self, player: str, positions: int) -> None:
        """So many positions came from a player who is taken out."""
        self._taken[player].positions += positions
        self._taken[player].allowed += positions * self._budget.samples_per_position

    def give_back(self, player: str) -> None:
        """All that was taken out because of this player counts again."""
        taken = self._taken.pop(player)
        self.players -= {player}
        self._budget.learned_from += taken.positions
        self._budget.allowed += taken.allowed
