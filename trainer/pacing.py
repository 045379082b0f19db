"""How many training steps the received games allow, and how far back steps draw. Pure.

Training on a position too often makes the network memorise it (a chess run at 4 times did); training on it
too rarely wastes games. So steps follow positions at a set ratio, however fast players and trainer are.

Games of players in quarantine are stored but not trained on. The trick: at any time, `SampleBudget` plus the
amounts that `Quarantine` has removed from it is the budget without any quarantine, because each new game
counts in one or the other. So a release restores exactly what is missing. The removed amounts are part of
each checkpoint, like the budget; a restart compares them with the store and catches up. Steps already made
are not undone: the samples that exceed what the remaining positions allow are forgiven until the release.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass
class SampleBudget:
    """How many samples the received positions allow, and how many samples the steps have used.

    A position counts once, when it arrives, at the ratio set at that time. So when a run continues with
    another ratio, old games are neither trained on again nor waited for.
    """

    batch: int
    """Positions in a step (AlphaZero: 4096)."""
    samples_per_position: float
    """Times a position is trained on, on average (AlphaZero: 0.5-0.7, AlphaGo Zero: 1.4)."""
    min_positions: int
    """Positions in the window before the first step, and before steps after a restart."""
    samples: int = 0
    """Positions trained on so far."""
    learned_from: int = 0
    """Positions of all games so far that may be trained on: policy targets, of games not held out."""
    allowed: float = 0.0
    """Samples that these positions allow."""
    forgiven: float = 0.0
    """Allowed samples that are not made, because their positions left the window long ago; below 0: samples
    beyond the allowed ones, which new positions need not make up for."""

    @property
    def due(self) -> float:
        """Samples that may be made now."""
        return self.allowed - self.samples - self.forgiven

    def limit(self, window_targets: int) -> None:
        """Forgive samples that would use the window's `window_targets` positions more often than
        `samples_per_position` says, such as those for a backlog far larger than the window."""
        # And a step, for which samples are saved up: a small window with large steps is trained on, too.
        most = self.samples_per_position * window_targets + self.batch
        self.forgiven += max(0.0, self.due - most)

    def add_positions(self, positions: int) -> None:
        """Add positions that arrived for training."""
        self.learned_from += positions
        self.allowed += positions * self.samples_per_position

    def take_step(self) -> None:
        """Count a step."""
        self.samples += self.batch

    def restore(self, samples: int, learned_from: int, allowed: float, forgiven: float = 0.0) -> None:
        """Restore saved counts."""
        self.samples, self.learned_from, self.allowed = samples, learned_from, allowed
        self.forgiven = forgiven

    def steps(self, window_positions: int) -> int:
        """Return how many steps may be made now, with this many positions in the window."""
        # From an empty window nothing can be drawn, whatever the settings say.
        if window_positions < max(self.min_positions, 1):
            return 0
        return max(int(self.due // self.batch), 0)

    def waiting_for(self, window_positions: int) -> str:
        """Return what the next step waits for, as text for people; "" if it waits for nothing."""
        if self.steps(window_positions):
            return ""
        missing = max(self.min_positions, 1) - window_positions
        if missing > 0:
            # After a restart there have been steps already.
            return f"{missing:,} more positions before the {'next' if self.samples else 'first'} step"
        # Told in positions, because people see these arrive.
        missing = math.ceil((self.batch - self.due) / self.samples_per_position)
        return f"{max(missing, 1):,} more positions for the next step"


ALPHA, BETA = 0.75, 0.4
"""As in KataGo: the window's share of all positions falls as their number grows; its initial growth per new
position."""


def grown_window(total: int, smallest: int) -> int:
    """Return how many of the newest positions to draw from, after `total` positions in all: a window that
    grows more slowly than the number of games, because early games soon lose their value.

    KataGo, arXiv 1902.10565, section 4.1: N = c (1 + beta ((N_total / c)^alpha - 1) / alpha). `smallest`: c,
    up to which steps draw from all positions (KataGo: 250,000).
    """
    growth = ((total / smallest) ** ALPHA - 1) / ALPHA
    return max(int(smallest * (1 + BETA * growth)), 1)


@dataclass
class Taken:
    """What the budget lacks because of one player."""

    positions: int = 0
    """Positions that could be trained on."""
    allowed: float = 0.0
    """Samples that these positions would allow."""
    forgiven: float = 0.0
    """What the removal added to `SampleBudget.forgiven`: at most 0."""


class Quarantine:
    """The players in quarantine, and the removed amounts."""

    def __init__(self, budget: SampleBudget) -> None:
        self._budget = budget
        self._taken: dict[str, Taken] = {}
        self.players: frozenset[str] = frozenset()
        """The players in quarantine. Another thread may read this: it is replaced and never modified."""

    def restore(self, taken: Mapping[str, Sequence[float]]) -> None:
        """Restore what `as_dict` returned, together with the budget of that time."""
        # Checkpoints of earlier versions lack the last number.
        self._taken = {name: Taken(int(positions), *more) for name, (positions, *more) in taken.items()}
        self.players = frozenset(self._taken)

    def as_dict(self) -> dict[str, tuple[int, float, float]]:
        return {name: (taken.positions, taken.allowed, taken.forgiven) for name, taken in self._taken.items()}

    def take(self, player: str, positions: int) -> None:
        """Remove a player with `positions` positions in the budget."""
        # At the mean ratio so far, because the ratio when they came is unknown. `give_back` returns the same
        # amounts.
        budget, allowed = self._budget, positions * self._budget.allowed / max(1, self._budget.learned_from)
        budget.learned_from -= positions
        budget.allowed -= allowed
        forgiven = min(0.0, budget.due)
        budget.forgiven += forgiven
        self._taken[player] = Taken(positions, allowed, forgiven)
        self.players |= {player}

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
        self._budget.forgiven -= taken.forgiven
