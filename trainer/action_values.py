"""Targets of the action-value head: what the search found each visited move to be worth, as in
AlphaZeroArcade (docs/decisions/0059). `tests/trainer/naive_action_values.py` is the slow twin.

A position has one outcome, but the search compared its moves. Their values also say what the moves would have
cost that were not played.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from protocol.records import CHILD_SCALE, NO_CHILD_VALUE
from trainer.window import Window


class ActionValues(NamedTuple):
    """Entries for the moves whose value is known; entry `i` belongs to sample `rows[i]`."""

    rows: npt.NDArray[np.int64]
    """[entries] ascending; a sample without entries has no action values to learn."""
    actions: npt.NDArray[np.int64]
    """[entries]"""
    values: npt.NDArray[np.float32]
    """[entries] for the side to move, in [-1, 1]."""


NO_ACTION_VALUES = ActionValues(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.float32))
"""For samples whose action values nobody asked for."""


def action_values(
    window: Window, numbers: npt.NDArray[np.int64], action_maps: npt.NDArray[np.int64]
) -> ActionValues:
    """Return the known values of the moves of the positions `numbers [n]` of a window `with_child_values`.

    action_maps: [n, actions] where the symmetry of each sample moves each action.
    """
    counts, places = window.visits_of(numbers)
    rows, stored = np.repeat(np.arange(len(numbers)), counts), window.child_values[places]
    known = stored != NO_CHILD_VALUE
    rows, places, stored = rows[known], places[known], stored[known]
    actions = action_maps[rows, window.rings.visit_action[places].astype(np.int64)]
    return ActionValues(rows, actions, stored.astype(np.float32) / np.float32(CHILD_SCALE))
