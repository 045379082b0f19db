"""A heuristic for games of lines of stones with the state of `games.small`.

Every window of k cells in a line that holds stones of only one side counts WEIGHTS[number of stones] for it.
"""

from __future__ import annotations

import sys

import numpy as np
import numpy.typing as npt

from games.bits import ZERO, count_ones
from games.jit import bind, kernel
from games.knowledge import Heuristic
from games.spec import Game, State

WEIGHTS = np.array([0, 1, 4, 16, 0], dtype=np.int64)
"""Value of a window by its number of stones; a full window ends the game and is never evaluated."""
WINDOWS = np.zeros(0, dtype=np.uint64)
"""[n] all windows that count, as boards; `window_heuristic` binds those of a game here."""


def windows_of(rows: int, cols: int, length: int) -> npt.NDArray[np.uint64]:
    """[n] all runs of `length` cells in a row, column or diagonal, as boards (bit i = cell i)."""
    boards = []
    for row in range(rows):
        for col in range(cols):
            for up, right in ((0, 1), (1, 0), (1, 1), (1, -1)):
                last_row, last_col = row + up * (length - 1), col + right * (length - 1)
                if last_row < rows and 0 <= last_col < cols:
                    cells = [(row + up * k) * cols + col + right * k for k in range(length)]
                    boards.append(sum(1 << cell for cell in cells))
    return np.array(boards, dtype=np.uint64)


@kernel
def evaluate(state: State) -> int:
    """The sum over WINDOWS, for the side to move."""
    total = 0
    for i in range(len(WINDOWS)):
        own, other = count_ones(state[0] & WINDOWS[i]), count_ones(state[1] & WINDOWS[i])
        if other == ZERO:
            total += WEIGHTS[own]
        if own == ZERO:
            total -= WEIGHTS[other]
    return total


def window_heuristic(game: Game, length: int) -> Heuristic:
    """The heuristic for a game that a line of `length` stones wins."""
    windows = windows_of(game.rows, game.cols, length)
    return Heuristic(evaluate=bind([sys.modules[__name__]], {game.name: [(WINDOWS, windows)]}).evaluate)
