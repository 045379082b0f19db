"""Exact solver for Connect Four: result, result-preserving columns and score of any position, given enough
time.

A position of 8 stones takes about a second, one of 14 some milliseconds; from 20 stones on it is thousands a
second.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from games.connect_four import CELLS, COLS, GAME, ROWS
from games.connect_four import solver_kernel as kernel
from games.spec import NO_ROOT, State

TABLE_BITS = 22
"""The solver remembers 2 ** 22 positions (32 MiB), which is enough from 8 stones on."""


@dataclass(frozen=True)
class Verdict:
    """What is known about a position in which the game continues."""

    value: int
    """+1, 0 or -1 for the side to move."""
    legal: tuple[int, ...]
    """Columns, in the order of the rules."""
    keeps: tuple[int, ...]
    """Columns after which the result is still `value`."""

    @property
    def matters(self) -> bool:
        """Whether some legal column loses a point or half a point."""
        return len(self.keeps) < len(self.legal)


class Solver:
    """Solves positions, and remembers those it has seen from one call to the next."""

    def __init__(self, table_bits: int = TABLE_BITS) -> None:
        self._table = np.zeros(1 << table_bits, np.uint64)
        self._scratch = np.zeros((CELLS, 2, COLS), np.uint64)
        self._nodes = np.zeros(1, np.int64)

    @property
    def nodes(self) -> int:
        """Positions searched since the start."""
        return int(self._nodes[0])

    def value(self, state: State) -> int:
        """Result with best play for the side to move: +1, 0 or -1; the game must go on."""
        return self._solve(state, -1, 1)

    def score(self, state: State) -> int:
        """Stones the winner has left when it wins, including the winning one; negative if the side to move
        loses."""
        return self._solve(state, kernel.LOWEST, -kernel.LOWEST)

    def plies_to_end(self, state: State) -> int:
        """Moves until the game ends if the winner hurries and the loser delays (or until the board is
        full)."""
        stones, score = int(state[2]), self.score(state)
        if score == 0:
            return CELLS - stones
        winner_is_first = (stones % 2 == 0) == (score > 0)
        return (CELLS + 1 if winner_is_first else CELLS + 2) - 2 * abs(score) - stones

    def verdict(self, state: State) -> Verdict:
        """The result and the columns that keep it."""
        legal = tuple(int(action) for action in legal_columns(state))
        value = self.value(state)
        if value < 0:
            return Verdict(value, legal, legal)
        return Verdict(value, legal, tuple(a for a in legal if self._keeps(state, a, value)))

    def _keeps(self, state: State, action: int, value: int) -> bool:
        child = after(state, action)
        reason = end_value(child)
        if reason is not None:
            return -reason >= value
        own, mask = board_of(child)
        return bool(kernel.is_at_most(own, mask, -value, self._table, self._scratch, self._nodes))

    def _solve(self, state: State, low: int, high: int) -> int:
        own, mask = board_of(state)
        return int(kernel.solve(own, mask, low, high, self._table, self._scratch, self._nodes))


def board_of(state: State) -> tuple[np.uint64, np.uint64]:
    """The state in the solver's form (own, mask): columns of six and an empty row above."""
    own, other = int(state[0]), int(state[1])
    return np.uint64(_by_columns(own)), np.uint64(_by_columns(own | other))


def _by_columns(stones: int) -> int:
    cells = (cell for cell in range(CELLS) if stones >> cell & 1)
    return sum(1 << (ROWS + 1) * (cell % COLS) + cell // COLS for cell in cells)


def legal_columns(state: State) -> npt.NDArray[np.uint16]:
    """[n] columns that are not full."""
    actions = np.zeros(COLS, np.uint16)
    return actions[: GAME.rules.legal_actions(state.reshape(1, -1), 1, actions)]


def after(state: State, action: int) -> State:
    """The state after a legal column."""
    child = np.zeros_like(state)
    GAME.rules.play(state, action, child)
    return child


def end_value(state: State) -> int | None:
    """Value for the side to move if the game is over, else None."""
    count = len(legal_columns(state))
    reason = GAME.rules.end_reason(state.reshape(1, -1), 1, count, NO_ROOT)
    return GAME.end_reasons[reason].value if reason else None
