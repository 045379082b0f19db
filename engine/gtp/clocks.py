"""Clocks of GTP: main time, then Canadian byo-yomi. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from engine.core.timing import SideClock


@dataclass(frozen=True)
class GtpClock:
    """The clock of one player, seconds."""

    remaining: float
    """Seconds left of the main time, or of the byo-yomi period."""
    period: float = 0.0
    """Length of a byo-yomi period; 0: there is none."""
    period_stones: int = 0
    """Moves to be played in each period."""
    stones: int = 0
    """Moves still to be played in this one; 0: main time."""

    def for_move(self) -> SideClock:
        """The clock in the form that a search uses."""
        if self.stones:
            return SideClock(self.remaining, moves_to_go=self.stones, loses_rest=self.stones == 1)
        return SideClock(
            self.remaining, byoyomi=self.period / self.period_stones if self.period_stones else 0
        )

    def after(self, seconds: float) -> GtpClock:
        """The clock after a move that took `seconds`. A time_left from the controller replaces it."""
        left = self.remaining - seconds
        if self.stones > 1:
            return replace(self, remaining=max(0.0, left), stones=self.stones - 1)
        if self.stones == 1:  # a new period begins
            return replace(self, remaining=self.period, stones=self.period_stones)
        if left <= 0 and self.period_stones:  # the main time ended during this move
            stones = self.period_stones - 1 or self.period_stones
            used = -left if self.period_stones > 1 else 0.0
            return replace(self, remaining=max(0.0, self.period - used), stones=stones)
        return replace(self, remaining=max(0.0, left))

    def told(self, remaining: float, stones: int) -> GtpClock:
        """The clock as the controller reports it."""
        return replace(self, remaining=max(0.0, remaining), stones=stones)


def clock_of(main: float, period: float, stones: int) -> GtpClock | None:
    """The clock that `time_settings` describes; None if there is no limit."""
    if period > 0 and stones == 0:
        return None
    if main <= 0 and period > 0:
        return GtpClock(period, period, stones, stones)
    return GtpClock(main, period, stones if period > 0 else 0)
