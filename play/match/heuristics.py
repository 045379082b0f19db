"""What a position of each game is worth without search, for alpha-beta and greedy players.

Chess: `play.match.chess_heuristic`. Games of lines of stones (Connect Four, tic-tac-toe): every window of k
cells that holds stones of one side only counts WEIGHTS[number of stones] for that side. A game without a
heuristic of its own evaluates to 0: its alpha-beta sees only the ends of games.
"""

# ruff: noqa: F821, ARG001
# mypy: disable-error-code="name-defined"

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import numpy.typing as npt

from games.bits import ZERO, count_ones
from games.jit import jit, specialise
from games.spec import Game, State

WEIGHTS = np.array([0, 1, 4, 16, 0], dtype=np.int64)
"""By stones in a window; a full window is the end of the game and never evaluated."""

WINDOW_LENGTHS = {"tic_tac_toe": 3, "connect_four": 4}
CHESS = "play.match.chess_heuristic"


def windows_of(rows: int, cols: int, length: int) -> npt.NDArray[np.uint64]:
    """All runs of `length` cells in a row, column or diagonal, as boards (bit i = cell i)."""
    boards = []
    for row in range(rows):
        for col in range(cols):
            for up, right in ((0, 1), (1, 0), (1, 1), (1, -1)):
                last_row, last_col = row + up * (length - 1), col + right * (length - 1)
                if last_row < rows and 0 <= last_col < cols:
                    cells = [(row + up * k) * cols + col + right * k for k in range(length)]
                    boards.append(sum(1 << cell for cell in cells))
    return np.array(boards, dtype=np.uint64)


def evaluate(state):  # type: ignore[no-untyped-def]
    """Sum over the WINDOWS that `specialise` binds, for the side to move."""
    total = 0
    for i in range(len(WINDOWS)):
        own, other = count_ones(state[0] & WINDOWS[i]), count_ones(state[1] & WINDOWS[i])
        if other == ZERO:
            total += WEIGHTS[own]
        if own == ZERO:
            total -= WEIGHTS[other]
    return total


@jit
def nothing(state: State) -> int:
    """A game about which nothing is known."""
    return 0


@jit
def nothing_of_action(state: State, action: int) -> int:
    """All actions alike."""
    return 0


@jit
def never(state: State, action: int) -> bool:
    """No action is noisy: the quiescence search stands pat at once."""
    return False


def heuristic_of(game: Game, tag: str) -> dict[str, Any]:
    """The names that the kernels of alpha-beta and greedy players call, for one game."""
    if game.name == "chess":
        chess = importlib.import_module(CHESS)
        names = ("evaluate", "material", "order_score", "is_noisy")
        return {name: getattr(chess, name) for name in names} | {"SEES_REPLY": False}
    found = nothing
    if game.name in WINDOW_LENGTHS:
        windows = windows_of(game.rows, game.cols, WINDOW_LENGTHS[game.name])
        found = specialise({"evaluate": evaluate}, {"WINDOWS": windows}, tag)["evaluate"]
    return {
        "evaluate": found,
        "material": nothing,
        "order_score": nothing_of_action,
        "is_noisy": never,
        "SEES_REPLY": True,
    }
