"""How many training steps the games that came in allow, and how far back they draw. Pure.

Training a position too often makes the network learn it by heart (a chess run at 4 times did), too
seldom wastes the games; so steps follow positions at a set ratio, whatever the speed of either side.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class SampleBudget:
    """How many samples the positions that came in allow, and how many steps have used.

    A position counts once, when it comes in and by the ratio of that time; so a run may go on with other
    settings, and neither makes up for old games nor waits for them.
    """

    batch: int
    """Positions in a step (AlphaZero: 4096)."""
    samples_per_position: float
    """Times a position is trained on, on average (AlphaZero: 0.5-0.7, AlphaGo Zero: 1.4)."""
    min_positions: int
    """Positions in the window before the first step, and after a restart."""
    samples: int = 0
    """Positions trained on so far."""
    learned_from: int = 0
    """Positions of all games so far that are learned from: policy targets, of games not held out."""
    allowed: float = 0.0
    """Samples that these allow."""

    def add_positions(self, positions: int) -> None:
        """So many more came in to learn from."""
        self.learned_from += positions
        self.allowed += positions * self.samples_per_position

    def take_step(self) -> None:
        """A step was made."""
        self.samples += self.batch

    def restore(self, samples: int, learned_from: int | None, allowed: float | None) -> None:
        """As it stood. None: of a run from before this was kept; what was done is what was allowed."""
        self.samples = samples
        self.learned_from = (
            round(samples / self.samples_per_position) if learned_from is None else learned_from
        )
        self.allowed = float(samples) if allowed is None else allowed

    def steps(self, window_positions: int) -> int:
        """Steps that may be made now, with so many positions to draw from."""
        if window_positions < max(self.min_positions, 1):
            return 0
        return max(int((self.allowed - self.samples) // self.batch), 0)

    def waiting_for(self, window_positions: int) -> str:
        """What the next step waits for, for people; empty when nothing."""
        if self.steps(window_positions):
            return ""
        missing = max(self.min_positions, 1) - window_positions
        if missing > 0:
            return f"{missing} more positions before the first step"
        missing = int((self.samples + self.batch - self.allowed) / self.samples_per_position) + 1
        return f"{max(missing, 1)} more positions for the next step"


@dataclass(frozen=True)
class Growth:
    """A window that grows slower than the games: early ones are worth little once better ones came.

    KataGo, arXiv 1902.10565, section 4.1: N = c (1 + beta ((N_total / c)^alpha - 1) / alpha).
    """

    smallest: int
    """c, positions: where all positions so far are still drawn from (KataGo: 250,000)."""
    alpha: float = 0.75
    """As KataGo has it: the window's share of all positions falls as they become more."""
    beta: float = 0.4
    """KataGo's: growth per new position at first."""

    def positions(self, total: int) -> int:
        """How many of the newest positions to draw from after `total` ever came in."""
        growth = ((total / self.smallest) ** self.alpha - 1) / self.alpha
        return max(int(self.smallest * (1 + self.beta * growth)), 1)
