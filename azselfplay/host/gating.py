"""When a candidate is better than the best player: the arithmetic of the gate, and the report of a match.

AlphaGo Zero, Methods, "Evaluator": 400 games, and the candidate takes over if it wins more than 55 % of them,
so that it is not chosen by chance alone. Go has no draws; here a draw counts half.
"""

from __future__ import annotations

import math
from fractions import Fraction

import msgspec

PROGRESS_SECONDS = 30.0
"""Seconds after which a running match repeats its report even if no game has ended: silence means that it
hangs."""


class GateReport(msgspec.Struct, frozen=True):
    """The games of a match so far, from the candidate's point of view; one JSON line each time there are
    more."""

    wins: int
    draws: int
    losses: int
    games: int
    """Games to be played unless the match is decided earlier."""

    @property
    def played(self) -> int:
        return self.wins + self.draws + self.losses

    @property
    def score(self) -> float:
        """Return the candidate's score, in [0, 1]; 0.5 before the first game."""
        return (self.wins + self.draws / 2) / self.played if self.played else 0.5


def verdict(report: GateReport, share: float) -> bool | None:
    """Return whether the candidate is better; None while the remaining games can change that.

    Better means more than `share` of all points of `report.games` games. The result is known as soon as
    losing, or winning, all remaining games would make no difference, so stopping there changes no decision.
    """
    enough = math.floor(Fraction(str(share)) * 2 * report.games) + 1  # in half points; floats would be off
    half_points = 2 * report.wins + report.draws
    if half_points >= enough:
        return True
    return False if half_points + 2 * (report.games - report.played) < enough else None
