"""Perft, the standard test of a move generator, for the rules of any game."""

import sys

import numpy as np
import numpy.typing as npt

from azselfplay.games.jit import bind, kernel
from azselfplay.games.spec import NO_ROOT, Game, Positions, State
from azselfplay.games.stubs import bindings, end_reason, legal_actions, play


@kernel
def count_leaves(
    positions: Positions, actions: npt.NDArray[np.uint16], left: npt.NDArray[np.int64], depth: int, ends: bool
) -> int:
    """Count leaves depth-first with a stack of `depth` positions; moves of the last level are counted, not
    played. With `ends`, a finished game has no continuations.

    positions [depth, state_words], whose row 0 is the root; actions [depth, max_legal] and left [depth]
    (moves not tried yet) are scratch.
    """
    nodes, level = 0, 0
    left[0] = legal_actions(positions, 1, actions[0])
    if ends and end_reason(positions, 1, left[0], NO_ROOT) != 0:
        return 0
    if depth == 1:  # the loop would access one level beyond the arrays
        return left[0]
    while level >= 0:
        if left[level] == 0:
            level -= 1
            continue
        # Moves are tried from the last to the first, so `left` is also the index of the next one.
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
    """Return the number of leaves of the tree of legal moves that is `depth` >= 1 half-moves deep and has
    `state` as its root.

    As usual in perft for chess, only a lack of legal moves ends a game, not repetitions or counters. With
    `ends`, all rules end it (needed for Go, where two passes end a game). Raises ValueError for `depth` < 1.
    """
    if depth < 1:
        raise ValueError(f"perft depth must be at least 1, not {depth}")
    positions = np.zeros((depth, game.state_words), dtype=np.uint64)
    positions[0] = state
    actions = np.zeros((depth, game.max_legal), dtype=np.uint16)
    count = bind([sys.modules[__name__]], {game.name: bindings(game)}).count_leaves
    return int(count(positions, actions, np.zeros(depth, dtype=np.int64), depth, ends))
