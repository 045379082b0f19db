"""Perft of Go: the number of sequences of moves of a given length, ends of games and superko included."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from games.jit import bind, kernel
from games.spec import Game, Positions, State
from games.stubs import bindings, end_reason, legal_actions, play


@kernel
def count_sequences(positions: Positions, actions: Any, left: Any, depth: int) -> int:
    """Depth-first; the last moves are counted and not played. A game that is over goes on nowhere.

    positions  uint64[depth, state_words], row 0 is where it begins; actions  uint16[depth, max_legal] and
    left  int64[depth] (moves not tried yet): scratch
    """
    nodes, level = 0, 0
    left[0] = legal_actions(positions, 1, actions[0])
    if end_reason(positions, 1, left[0], False) != 0:
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
        if end_reason(positions, level + 2, count, False) != 0:
            continue
        if level + 2 == depth:
            nodes += count
        else:
            level += 1
            left[level] = count
    return nodes


def perft(game: Game, state: State, depth: int) -> int:
    """Number of sequences of `depth` >= 1 moves from `state`, where the game's history begins."""
    if depth < 1:
        raise ValueError(f"perft depth must be at least 1, not {depth}")
    kernels = bind([sys.modules[__name__]], {game.name: bindings(game)})
    positions = np.zeros((depth, game.state_words), np.uint64)
    positions[0] = state
    actions = np.zeros((depth, game.max_legal), np.uint16)
    return int(kernels.count_sequences(positions, actions, np.zeros(depth, np.int64), depth))
