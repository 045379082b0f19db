"""How many training steps the received games allow, how far back they draw, how long training lasts. Pure.

Training on a position too often makes the network memorise it (a chess run at 4 times did), too seldom wastes
the games. So steps follow positions at a set ratio, however fast either side is.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class SampleBudget:
    """How many samples the received positions allow, and how many the steps have used.

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

    def add_positions(self, positions: int) -> None:
        """Add positions that arrived for training."""
        self.learned_from += positions
        self.allowed += positions * self.samples_per_position

    def take_step(self) -> None:
        """Count a step."""
        self.samples += self.batch

    def restore(self, samples: int, learned_from: int, allowed: float) -> None:
        """Restore saved counts."""
        self.samples, self.learned_from, self.allowed = samples, learned_from, allowed

    def steps(self, window_positions: int) -> int:
        """Return how many steps may be made now, with this many positions in the window."""
        if window_positions < max(self.min_positions, 1):
            return 0
        return max(int((self.allowed - self.samples) // self.batch), 0)

    def waiting_for(self, window_positions: int) -> str:
        """Return what the next step waits for, for people; empty if nothing."""
        if self.steps(window_positions):
            return ""
        missing = max(self.min_positions, 1) - window_positions
        if missing > 0:
            return f"{missing:,} more positions before the first step"
        missing = int((self.samples + self.batch - self.allowed) / self.samples_per_position) + 1
        return f"{max(missing, 1):,} more positions for the next step"


@dataclass(frozen=True)
class TrainingTime:
    """How long a run has been trained, over all starts of its trainer."""

    began: float
    """When this trainer started, in seconds of any clock."""
    before: float = 0.0
    """Minutes of the trainers before it, up to the checkpoint."""

    def minutes(self, now: float) -> float:
        """Return the minutes in all; `now` in seconds of the same clock."""
        return self.before + (now - self.began) / 60


@dataclass(frozen=True)
class Growth:
    """A window that grows more slowly than the number of games, because early games are worth little later
    on.

    KataGo, arXiv 1902.10565, section 4.1: N = c (1 + beta ((N_total / c)^alpha - 1) / alpha).
    """

    smallest: int
    """c, in positions: up to this many, all are drawn from (KataGo: 250,000)."""
    alpha: float = 0.75
    """As in KataGo: the window's share of all positions falls as their number grows."""
    beta: float = 0.4
    """As in KataGo: initial growth per new position."""

    def positions(self, total: int) -> int:
        """Return how many of the newest positions to draw from, after `total` positions in all."""
        growth = ((total / self.smallest) ** self.alpha - 1) / self.alpha
        return max(int(self.smallest * (1 + self.beta * growth)), 1)
