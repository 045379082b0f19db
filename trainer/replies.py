"""Targets of the reply head: how the search of the next position shared its visits (KataGo's "opponent
policy", arXiv 1902.10565, section 3.4). `tests/trainer/naive_replies.py` is the slow twin."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from trainer.window import Window


class Replies(NamedTuple):
    """Entries for the visited moves of the next positions; entry `i` belongs to sample `rows[i]`."""

    rows: npt.NDArray[np.int64]
    """[entries] ascending; a sample without entries has no reply to learn."""
    actions: npt.NDArray[np.int64]
    """[entries]"""
    shares: npt.NDArray[np.float32]
    """[entries] shares of the visits; they sum to 1 in each row."""


NO_REPLIES = Replies(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.float32))
"""For samples whose replies nobody asked for."""


def replies(window: Window, numbers: npt.NDArray[np.int64], action_maps: npt.NDArray[np.int64]) -> Replies:
    """Return the replies to the positions `numbers [n]` of the window. A position has none if its game ends
    with the next move, or if the next position is no policy target.

    action_maps: [n, actions] where the symmetry of each sample moves each action.
    """
    rings, following = window.rings, numbers + 1
    slots = rings.game[numbers % window.capacity]
    goes_on = following < rings.game_first[slots] + rings.game_plies[slots]
    rows = np.flatnonzero(goes_on & window.is_target(following))
    counts, visits = window.visits_of(following[rows])
    begins = np.cumsum(counts) - counts
    numbers_of_visits = rings.visit_count[visits].astype(np.float32)
    totals = np.add.reduceat(numbers_of_visits, begins) if len(rows) else numbers_of_visits
    of_row = np.repeat(rows, counts)
    actions = action_maps[of_row, rings.visit_action[visits].astype(np.int64)]
    return Replies(of_row, actions, numbers_of_visits / np.repeat(totals, counts))
