"""The whole of tic-tac-toe: every reachable position, its value and the moves that keep it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from games.spec import NO_ROOT, State
from games.tic_tac_toe import CELLS, GAME

Key = tuple[int, int]
"""Stones of the side to move and of the other."""


@dataclass(frozen=True)
class Solved:
    """One position of the tree."""

    value: int
    """+1, 0 or -1 for the side to move, with best play."""
    moves: tuple[int, ...]
    """One way to get here from the empty board."""
    children: dict[int, Key]
    """Position after each legal action; none if the game is over."""
    keeps: tuple[int, ...]
    """Actions that keep the value."""

    @property
    def is_over(self) -> bool:
        return not self.children


@cache
def solve() -> dict[Key, Solved]:
    """All reachable positions, including the empty board (5,478)."""
    tree: dict[Key, Solved] = {}
    start = np.zeros(GAME.state_words, np.uint64)
    GAME.rules.start(start)
    _solve(start, (), tree)
    return tree


def key_of(state: State) -> Key:
    """The key of a state in the tree."""
    return int(state[0]), int(state[1])


def _solve(state: State, moves: tuple[int, ...], tree: dict[Key, Solved]) -> int:
    key = key_of(state)
    if key not in tree:
        positions, legal = state.reshape(1, -1), np.zeros(CELLS, np.uint16)
        count = GAME.rules.legal_actions(positions, 1, legal)
        reason = GAME.rules.end_reason(positions, 1, count, NO_ROOT)
        if reason:
            tree[key] = Solved(GAME.end_reasons[reason].value, moves, {}, ())
        else:
            tree[key] = _best_of(state, moves, [int(action) for action in legal[:count]], tree)
    return tree[key].value


def _best_of(state: State, moves: tuple[int, ...], legal: list[int], tree: dict[Key, Solved]) -> Solved:
    children, values = {}, {}
    for action in legal:
        child = np.zeros_like(state)
        GAME.rules.play(state, action, child)
        values[action] = -_solve(child, (*moves, action), tree)
        children[action] = key_of(child)
    best = max(values.values())
    return Solved(best, moves, children, tuple(action for action in legal if values[action] == best))
