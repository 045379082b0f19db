"""Perft: the number of move sequences of a given length, the standard proof of a move generator."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from games.chess.layout import STATE_WORDS
from games.chess.movegen import MAX_LEGAL, legal_actions
from games.chess.play import play
from games.jit import jit
from games.spec import Positions, State


@jit
def _count(
    positions: Positions, actions: npt.NDArray[np.uint16], left: npt.NDArray[np.int64], depth: int
) -> int:
    """Depth-first over a stack of `depth` positions; the last level is counted, not played.

    positions [depth], actions [depth, max_legal] and left [depth] (moves not tried yet): scratch
    """
    nodes, level = 0, 0
    left[0] = legal_actions(positions, 1, actions[0])
    if depth == 1:
        return left[0]
    while level >= 0:
        if left[level] == 0:
            level -= 1
            continue
        left[level] -= 1
        play(positions[level], actions[level, left[level]], positions[level + 1])
        count = legal_actions(positions, level + 2, actions[level + 1])
        if level + 2 == depth:
            nodes += count
        else:
            level += 1
            left[level] = count
    return nodes


def perft(state: State, depth: int) -> int:
    """Number of leaves of the tree of legal moves `depth` >= 1 half-moves deep."""
    if depth < 1:
        raise ValueError(f"perft depth must be at least 1, not {depth}")
    positions = np.zeros((depth, STATE_WORDS), dtype=np.uint64)
    positions[0] = state
    actions = np.zeros((depth, MAX_LEGAL), dtype=np.uint16)
    return int(_count(positions, actions, np.zeros(depth, dtype=np.int64), depth))
