"""How long to think about a move: from the clock to seconds. Pure."""

from __future__ import annotations

from dataclasses import dataclass

EXPECTED_MOVES = 30
"""Moves still to come, if the GUI does not say."""
LARGEST_SHARE = 0.4
"""Largest share of the remaining time for one move among several."""
LAST_MOVE_SHARE = 0.9
"""Largest share of the remaining time for the last move before the next time control."""
INCREMENT_SHARE = 0.8
"""Share of the increment used for each move."""


@dataclass(frozen=True)
class SideClock:
    """The clock of the side to move, seconds."""

    remaining: float
    increment: float = 0.0
    moves_to_go: int = 0
    """Moves until the next time control; 0: the time is for the whole game."""
    byoyomi: float = 0.0
    """Seconds for each move once `remaining` is used up; what a move does not use is lost."""


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
