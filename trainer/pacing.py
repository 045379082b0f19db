"""How many training steps the games that came in pay for, and how far back they draw. Pure.

Training a position too often makes the network learn it by heart (a chess run at 4 times did), too
seldom wastes the games; so steps follow positions at a set ratio, whatever the speed of either side.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Pace:
    """The ratio to keep."""

    batch: int
    """Positions in a step (AlphaZero: 4096)."""
    samples_per_position: float
    """Times a position is trained on, on average (AlphaZero: 0.5-0.7, AlphaGo Zero: 1.4)."""
    min_positions: int
    """Positions in the window before the first step, and after a restart."""

    def steps(self, paid_for: float, window_positions: int, samples: int) -> int:
        """Steps that may be made now.

        paid_for          samples that the games so far pay for: `samples_per_position` for each position
                          learned from, as it was set when the position came in
        window_positions  positions to draw from
        samples           positions trained on so far (steps times batch)
        """
        if window_positions < max(self.min_positions, 1):
            return 0
        return max(int((paid_for - samples) // self.batch), 0)

    def waiting_for(self, paid_for: float, window_positions: int, samples: int) -> str:
        """What the next step waits for, for people; empty when nothing."""
        if self.steps(paid_for, window_positions, samples):
            return ""
        missing = max(self.min_positions, 1) - window_positions
        if missing > 0:
            return f"{missing} more positions before the first step"
        missing = int((samples + self.batch - paid_for) / self.samples_per_position) + 1
        return f"{max(missing, 1)} more positions for the next step"


@dataclass(frozen=True)
class Growth:
    """A window that grows slower than the games: early ones are worth little once better ones came.

    KataGo, arXiv 1902.10565, section 4.1: N = c (1 + beta ((N_total / c)^alpha - 1) / alpha).
    """

    smallest: int
    """c, positions: where all positions so far are still drawn from (KataGo: 250,000)."""
    alpha: float
    """KataGo: 0.75."""
    beta: float
    """KataGo: 0.4."""

    def positions(self, total: int) -> int:
        """How many of the newest positions to draw from after `total` ever came in."""
        growth = ((total / self.smallest) ** self.alpha - 1) / self.alpha
        return max(int(self.smallest * (1 + self.beta * growth)), 1)
