"""The common part of games in which players place stones on a board of at most 64 cells: turns, features,
text and symmetries.

State: word 0 has the stones of the side to move, word 1 those of the other side, word 2 the number of stones
played. Bit `i` is cell `i`, row by row from the bottom left. The first player's stones are written `x`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from azselfplay.games.bits import ONE, ZERO, count_ones
from azselfplay.games.jit import bind, jit, kernel
from azselfplay.games.knowledge import Heuristic
from azselfplay.games.spec import (
    NO_ROOT,
    Game,
    Notation,
    Positions,
    Rules,
    State,
    Symmetry,
    actions_like_cells,
    legal_list,
)

STATE_WORDS = 3
PLANES_PER_POSITION = 2
SCALAR_PLANES = 1
"""The side to move. It determines who gets which of the last free cells (Connect Four's odd and even
threats). The network needs this plane because a convolution cannot count the stones of a whole board."""
_ONE = np.uint64(int(np.float32(1.0).view(np.uint32)))

FIRST, SECOND, EMPTY = "x", "o", "."
DIRECTIONS = ((0, 1), (1, 0), (1, 1), (1, -1))
"""(rows, columns) of a step along a line."""


# ---- Rules ---------------------------------------------------------------------------------------


@jit
def start(state: State) -> None:
    state[:] = ZERO


@jit
def side_to_move(state: State) -> int:
    return int(state[2] & ONE)


@jit
def encode(positions: Positions, n: int, history: int, packed_features: npt.NDArray[np.uint64]) -> None:
    """Write `packed_features` [2 * history + 1]. Each position has two planes, newest first: the stones of
    the side that is to move now, and the other side's. Then follows 1 if the first player is to move, else 0
    (AlphaGo Zero's colour plane)."""
    for back in range(history):
        # Positions before the start are empty boards.
        own, other = ZERO, ZERO
        if back < n:
            # Sides alternate, so in every other position the stones of the side to move now are in word 1.
            turned = back & 1
            own, other = positions[n - 1 - back, turned], positions[n - 1 - back, 1 - turned]
        packed_features[2 * back] = own
        packed_features[2 * back + 1] = other
    packed_features[2 * history] = ZERO if positions[n - 1, 2] & ONE else _ONE


# ---- Text ----------------------------------------------------------------------------------------


def stones_by_player(state: State) -> tuple[int, int]:
    """Return the stones of the first and of the second player, as Python integers."""
    own, other = int(state[0]), int(state[1])
    return (own, other) if int(state[2]) % 2 == 0 else (other, own)


def board_rows(state: State, rows: int, cols: int) -> list[str]:
    """Return the board as text, top row first."""
    first, second = stones_by_player(state)

    def letter(cell: int) -> str:
        if first >> cell & 1:
            return FIRST
        return SECOND if second >> cell & 1 else EMPTY

    return ["".join(letter(row * cols + col) for col in range(cols)) for row in reversed(range(rows))]


def cells_in_line(rows: Sequence[str], length: int) -> set[tuple[int, int]]:
    """Return (row from the top, column) of all stones that are part of a line of at least `length` stones of
    one side. rows: as `board_rows` returns them."""
    found: set[tuple[int, int]] = set()
    for down, row in enumerate(rows):
        for col, seen in enumerate(row):
            for step_down, step_right in DIRECTIONS:
                line = [(down + n * step_down, col + n * step_right) for n in range(length)]
                # Checking the last cell is enough: the others lie between it and the first.
                is_inside = line[-1][0] < len(rows) and 0 <= line[-1][1] < len(row)
                if seen != EMPTY and is_inside and all(rows[y][x] == seen for y, x in line):
                    found.update(line)
    return found


def stones_from_text(text: str, rows: int, cols: int, has_line: Callable[[int], bool]) -> State:
    """Return the state in `text`, which has rows from the top as in `x.o/.x./...`; "" is the empty board. The
    side to move follows from the numbers of stones. Raises ValueError that says what is wrong.

    `has_line(stones)` returns whether one side's stones win; only the side that moved last may have won.
    """
    lines = text.strip().split("/") if text else [EMPTY * cols] * rows
    if len(lines) != rows:
        raise ValueError(f"{len(lines)} rows, expected {rows} joined by '/'")
    for number, row in enumerate(lines, start=1):
        if len(row) != cols:
            raise ValueError(f"row {number} from the top has {len(row)} cells, expected {cols}")
        if strange := set(row) - {FIRST, SECOND, EMPTY}:
            letters = f"'{FIRST}{SECOND}{EMPTY}'"
            raise ValueError(f"row {number} from the top: {min(strange)!r} is none of {letters}")
    # Text begins at the top row, but cells are numbered from the bottom.
    cells = "".join(reversed(lines))
    first, second = (
        sum(1 << cell for cell, seen in enumerate(cells) if seen == letter) for letter in (FIRST, SECOND)
    )
    surplus = first.bit_count() - second.bit_count()
    if surplus not in (0, 1):
        raise ValueError(
            f"{first.bit_count()} {FIRST} and {second.bit_count()} {SECOND}: {FIRST} begins, "
            f"so there must be as many {FIRST} as {SECOND} or one more"
        )
    # With equal numbers of stones the first player is to move.
    own, other = (first, second) if surplus == 0 else (second, first)
    if has_line(own):
        mover = FIRST if surplus == 0 else SECOND
        raise ValueError(f"{mover} has won and is to move: the game ended before the last stone")
    return np.array([own, other, (own | other).bit_count()], dtype=np.uint64)


def notation(
    rules: Rules,
    state_from_text: Callable[[str], State],
    *,
    rows: int,
    cols: int,
    noun: str,
    actions: int,
    footer: str = "",
    beside: Sequence[str] = (),
) -> Notation:
    """Return the notation of a game whose actions are written as numbers from 1. `noun` is what is numbered;
    `footer`, below the board, or `beside`, one text per row to its right, shows where the numbers are."""

    def action_from_text(state: State, text: str) -> int:
        found = legal_list(rules.legal_actions, actions, state)
        # `legal_actions` lists moves even if a line has ended the game.
        if rules.end_reason(state.reshape(1, -1), 1, len(found), NO_ROOT):
            raise ValueError("the game is over")
        legal = {str(action + 1): action for action in found}
        if text.strip() not in legal:
            raise ValueError(f"{text.strip()!r} is not a legal {noun} here; legal: {' '.join(legal)}")
        return legal[text.strip()]

    def render(state: State) -> str:
        lines = [" ".join(row) for row in board_rows(state, rows, cols)]
        if beside:
            lines = [f"{line}    {text}" for line, text in zip(lines, beside, strict=True)]
        to_move = FIRST if int(state[2]) % 2 == 0 else SECOND
        return "\n".join([*lines, *([footer] if footer else []), f"{to_move} to move"])

    return Notation(
        state_from_text=state_from_text,
        state_to_text=lambda state: "/".join(board_rows(state, rows, cols)),
        action_to_text=lambda _state, action: str(action + 1),
        action_from_text=action_from_text,
        render=render,
    )


# ---- Symmetries ----------------------------------------------------------------------------------


def square_symmetries(rows: int, extra_actions: int = 0) -> tuple[Symmetry, ...]:
    """Return the seven symmetries of a square board other than the identity, for a game whose actions are its
    cells, followed by `extra_actions` others."""
    grid = np.arange(rows * rows, dtype=np.int64).reshape(rows, rows)
    arranged = {
        "rotate_90": np.rot90(grid, 1),
        "rotate_180": np.rot90(grid, 2),
        "rotate_270": np.rot90(grid, 3),
        "mirror_columns": grid[:, ::-1],
        "mirror_rows": grid[::-1],
        "transpose": grid.T,
        "anti_transpose": np.rot90(grid, 2).T,
    }
    maps = {name: np.ascontiguousarray(cells).ravel() for name, cells in arranged.items()}
    return tuple(
        Symmetry(name, cells, actions_like_cells(cells, extra_actions=extra_actions))
        for name, cells in maps.items()
    )


# ---- A heuristic ---------------------------------------------------------------------------------
# Every window of k cells in a line that holds stones of only one side counts WEIGHTS[number of stones].


WEIGHTS = np.array([0, 1, 4, 16, 0], dtype=np.int64)
"""Value of a window by its number of stones; a full window ends the game and is never evaluated."""
WINDOWS = np.zeros(0, dtype=np.uint64)
"""[n] all windows, as bitboards. `window_heuristic` binds the windows of a game here."""


def windows_of(rows: int, cols: int, length: int) -> npt.NDArray[np.uint64]:
    """Return [n] all runs of `length` cells in a row, column or diagonal, as bitboards (bit i = cell i)."""
    boards = []
    for row in range(rows):
        for col in range(cols):
            for up, right in DIRECTIONS:
                last_row, last_col = row + up * (length - 1), col + right * (length - 1)
                if last_row < rows and 0 <= last_col < cols:
                    cells = [(row + up * k) * cols + col + right * k for k in range(length)]
                    boards.append(sum(1 << cell for cell in cells))
    return np.array(boards, dtype=np.uint64)


@kernel
def evaluate(state: State) -> int:
    """Return the sum over WINDOWS, for the side to move."""
    total = 0
    for i in range(len(WINDOWS)):
        own, other = count_ones(state[0] & WINDOWS[i]), count_ones(state[1] & WINDOWS[i])
        if other == ZERO:
            # No side can fill a window that has stones of both.
            total += WEIGHTS[own]
        if own == ZERO:
            total -= WEIGHTS[other]
    return total


def window_heuristic(game: Game, length: int) -> Heuristic:
    """Return the heuristic for a game that a line of `length` stones wins."""
    windows = windows_of(game.rows, game.cols, length)
    # Compiled once per game, because the windows are compiled in as a constant.
    return Heuristic(evaluate=bind([sys.modules[__name__]], {game.name: [(WINDOWS, windows)]}).evaluate)
