"""How long to think about a move: from the clock to seconds. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

EXPECTED_MOVES = 30
"""Moves still to come, if the GUI does not say."""
LARGEST_SHARE = 0.4
"""Largest share of the remaining time for one move among several."""
LAST_MOVE_SHARE = 0.9
"""Largest share of the remaining time for the last move before the next time control."""
INCREMENT_SHARE = 0.8
"""Share of the increment used for each move."""
MEASURED_SHARE = 0.1
"""Share of a move's time that passes before its speed counts as measured."""
MEASURED_SIMULATIONS = 100
"""Simulations that a search makes before its speed counts as measured."""


@dataclass(frozen=True)
class SideClock:
    """The clock of the side to move, seconds."""

    remaining: float
    increment: float = 0.0
    moves_to_go: int = 0
    """Moves until the next time control; 0: the time is for the whole game."""
    byoyomi: float = 0.0
    """Seconds for each move once `remaining` is used up; what a move does not use is lost."""
    loses_rest: bool = False
    """Whether the rest of `remaining` is lost after this move."""

    @property
    def keeps_rest(self) -> bool:
        """Whether later moves can use what this one leaves."""
        return self.remaining > 0 and not self.loses_rest


def seconds_for_move(clock: SideClock, overhead: float) -> float:
    """Seconds to think: at most the clock minus `overhead` (lost on the way to the GUI), and at least 0."""
    usable = max(0.0, clock.remaining - overhead)
    moves = clock.moves_to_go or EXPECTED_MOVES
    # Each remaining move costs its overhead too, and the next time control does not return it.
    spread = max(0.0, usable - overhead * (moves - 1)) / moves
    most = usable * (LARGEST_SHARE if moves > 1 else LAST_MOVE_SHARE)
    main = min(spread + INCREMENT_SHARE * clock.increment, most)
    return main + max(0.0, clock.byoyomi - overhead)


def seconds_of_movetime(movetime: float, overhead: float) -> float:
    """Seconds to think when the GUI wants an answer after `movetime` seconds."""
    return max(movetime - overhead, movetime / 2)


def cannot_be_overtaken(visits: Sequence[int], simulations: int, elapsed: float, left: float) -> bool:
    """Whether no other move can still become the most visited one, so that the rest of the time is saved.

    `visits`: those of each move that may be played, with visits from earlier searches. `simulations` and
    `elapsed` are of this search alone, because only they show how many visits fit into the `left` seconds: a
    tree that was kept from the last move says nothing about that. False until the speed is measured.
    """
    if simulations < MEASURED_SIMULATIONS or elapsed <= 0 or elapsed < MEASURED_SHARE * (elapsed + left):
        return False
    best, second = sorted([*visits, 0, 0], reverse=True)[:2]
    return best - second > simulations / elapsed * max(0.0, left) + 1
