"""How the move is chosen when it is not sampled: five ways to read a finished PUCT search.

The children are named as in Chaslot et al., "Progressive strategies for Monte-Carlo tree search" (2008).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from protocol.settings import SelfPlaySettings

SECURE = 1.0
"""Constant of `secure`, in units of value (Chaslot et al. give 4 for their program Mango)."""


@dataclass(frozen=True, eq=False)
class Candidates:
    """The root actions that may be played, all with visits; arrays [k]."""

    actions: npt.NDArray[np.uint16]
    visits: npt.NDArray[np.int32]
    values: npt.NDArray[np.float64]
    """Mean value, for the side to move."""


def is_sampled(settings: SelfPlaySettings, ply: int) -> bool:
    """Return whether the move of this ply is sampled from the visits (temperature)."""
    return ply < settings.moves.temperature_plies and settings.moves.temperature > 0


def max_child(candidates: Candidates) -> int:
    """Return the index of the highest value; ties go to the most visited."""
    return _best(candidates.values, candidates.visits)


def robust_child(candidates: Candidates) -> int:
    """Return the index of the most visits; ties go to the highest value."""
    return _best(candidates.visits, candidates.values)


def secure_child(candidates: Candidates, c: float) -> int:
    """Return the index of the highest lower bound, value - c / sqrt(visits)."""
    return _best(candidates.values - c / np.sqrt(candidates.visits), candidates.visits)


def agrees(candidates: Candidates) -> bool:
    """Return whether an action with the highest value also has the most visits: the max-robust child."""
    return bool(candidates.visits[max_child(candidates)] == candidates.visits.max())


def final_action(candidates: Candidates, settings: SelfPlaySettings) -> int:
    """Return the action that `final_move` plays; for `visits` the first of the most visited."""
    rule = settings.moves.final_move
    if rule == "max" or (rule == "max_robust" and agrees(candidates)):
        index = max_child(candidates)
    elif rule == "secure":
        index = secure_child(candidates, SECURE)
    elif rule == "visits":
        index = int(np.argmax(candidates.visits))
    else:
        index = robust_child(candidates)
    return int(candidates.actions[index])


def _best(first: npt.NDArray[np.generic], second: npt.NDArray[np.generic]) -> int:
    """Return the index of the largest pair (`first [k]`, `second [k]`); ties go to the lowest index."""
    return int(np.lexsort((-np.arange(len(first)), second, first))[-1])
