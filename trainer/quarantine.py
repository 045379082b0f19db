"""Players whose games are stored but not trained on, and what the sample budget lacks because of them.

At any time `SampleBudget` and the removed amounts together are what the budget would be without a quarantine,
because each new game counts in one or the other. So a release restores exactly what is missing. The removed
amounts are part of each checkpoint, like the budget; a restart compares them with the store and catches up.

Steps already made are not undone. If the samples so far exceed what the remaining positions allow, training
waits until new positions have made up for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trainer.pacing import SampleBudget


@dataclass
class Taken:
    """What the budget lacks because of one player."""

    positions: int = 0
    """Positions that could be trained on."""
    allowed: float = 0.0
    """Samples that these positions would allow."""


class Quarantine:
    """The players in quarantine, and the removed amounts."""

    def __init__(self, budget: SampleBudget) -> None:
        self._budget = budget
        self._taken: dict[str, Taken] = {}
        self.players: frozenset[str] = frozenset()
        """The players in quarantine. Another thread may read this: it is replaced and never modified."""

    def restore(self, taken: Mapping[str, Sequence[float]]) -> None:
        """Restore what `as_dict` returned, together with the budget of that time."""
        self._taken = {name: Taken(int(positions), allowed) for name, (positions, allowed) in taken.items()}
        self.players = frozenset(self._taken)

    def as_dict(self) -> dict[str, tuple[int, float]]:
        return {name: (taken.positions, taken.allowed) for name, taken in self._taken.items()}

    def take(self, player: str, positions: int) -> None:
        """Remove a player with `positions` positions in the budget."""
        self._taken[player] = Taken()
        self.players |= {player}
        self.add(player, positions)
        self._budget.learned_from -= positions
        self._budget.allowed -= self._taken[player].allowed

    def add(self, player: str, positions: int) -> None:
        """Count new positions of a player in quarantine."""
        self._taken[player].positions += positions
        self._taken[player].allowed += positions * self._budget.samples_per_position

    def give_back(self, player: str) -> None:
        """Restore everything that was removed because of this player."""
        taken = self._taken.pop(player)
        self.players -= {player}
        self._budget.learned_from += taken.positions
        self._budget.allowed += taken.allowed
