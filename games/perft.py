"""Perft: the number of move sequences of a given length, the standard test of a move generator."""

from __future__ import annotations

import sys

import numpy as np
import numpy.typing as npt

from games.jit import bind, kernel
from games.spec import NO_ROOT, Game, Positions, State
from games.stubs import bindings, end_reason, legal_actions, play


@kernel
def count_leaves(
    positions: Positions, actions: npt.NDArray[np.uint16], left: npt.NDArray[np.int64], depth: int, ends: bool
) -> int:
    """Depth-first over a stack of `depth` positions; the last level is counted, not played. With `ends`, a
    finished game has no continuations.

    positions [depth, state_words], whose row 0 is the root; actions [depth, max_legal] and left [depth]
    (moves not tried yet) are scratch.
    """
    nodes, level = 0, 0
    left[0] = legal_actions(positions, 1, actions[0])
    if ends and end_reason(positions, 1, left[0], NO_ROOT) != 0:
        return 0
    if depth == 1:
        return left[0]
    while level >= 0:
        if left[level] == 0:
            level -= 1
            continue
        left[level] -= 1
        play(positions[level], actions[level, left[level]], positions[level + 1])
        count = legal_actions(positions, level + 2, actions[level + 1])
        if ends and end_reason(positions, level + 2, count, NO_ROOT) != 0:
            continue
        if level + 2 == depth:
            nodes += count
        else:
            level += 1
            left[level] = count
    return nodes


def perft(game: Game, state: State, depth: int, *, ends: bool = False) -> int:
    """Number of leaves of the tree of legal moves `depth` >= 1 half-moves deep, with `state` as its root.

    Only a lack of legal moves ends a game here, as usual in perft for chess: repetitions and counters do not.
    With `ends` (Go, where two passes end a game) all rules do. Raises ValueError for another depth.
    """
    if depth < 1:
        raise ValueError(f"perft depth must be at least 1, not {depth}")
    positions = np.zeros((depth, game.state_words), dtype=np.uint64)
    positions[0] = state
    actions = np.zeros((depth, game.max_legal), dtype=np.uint16)
    count = bind([sys.modules[__name__]], {game.name: bindings(game)}).count_leaves
    return int(count(positions, actions, np.zeros(depth, dtype=np.int64), depth, ends))
