"""A small complete game in which players move twice; for tests only. Importing it registers it with
`get_game`.

Players place stones on the empty cells of a board of 2 x 4. A player who places a stone beside exactly two
stones moves again (even after the last stone, one player is to move). When the board is full, more stones
win. State: word 0 the first player's stones, word 1 the second's, word 2 the side to move.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import numpy.typing as npt

from azselfplay.games.bits import ONE, ZERO, count_ones
from azselfplay.games.jit import jit
from azselfplay.games.names import GAME_MODULES
from azselfplay.games.spec import (
    EndReason,
    Game,
    Notation,
    Positions,
    Rules,
    State,
    Symmetry,
    actions_like_cells,
)

ROWS, COLS = 2, 4
CELLS = ROWS * COLS
FULL = np.uint64((1 << CELLS) - 1)
LEFT_EDGE = np.uint64(0b0001_0001)
"""The cells of column 0."""
RIGHT_EDGE = np.uint64(0b1000_1000)
_WIDTH = np.uint64(COLS)

NAME = f"twice_{hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:8]}"
"""The name has a hash of this file, because kernels that call these rules are cached under the game's
name."""

END_REASONS = (
    EndReason("ongoing", 0),
    EndReason("more_stones", 1),
    EndReason("fewer_stones", -1),
    EndReason("as_many_stones", 0),
)


@jit
def start(state: State) -> None:
    state[:] = ZERO


@jit
def side_to_move(state: State) -> int:
    return int(state[2])


@jit
def legal_actions(positions: Positions, n: int, actions: npt.NDArray[np.uint16]) -> int:
    taken = positions[n - 1, 0] | positions[n - 1, 1]
    count = 0
    for cell in range(CELLS):
        if not (taken >> np.uint64(cell)) & ONE:
            actions[count] = cell
            count += 1
    return count


@jit
def beside(cell: int) -> int:
    """Return the cells beside `cell` (a uint64 with one bit), as bits."""
    sideways = ((cell & ~LEFT_EDGE) >> ONE) | ((cell & ~RIGHT_EDGE) << ONE)
    return (sideways | (cell >> _WIDTH) | (cell << _WIDTH)) & FULL


@jit
def play(parent: State, action: int, child: State) -> None:
    cell = ONE << np.uint64(action)
    side = parent[2]
    again = count_ones(beside(cell) & (parent[0] | parent[1])) == np.uint64(2)
    child[0], child[1] = parent[0], parent[1]
    child[side] = parent[side] | cell
    child[2] = side if again else ONE - side


@jit
def end_reason(positions: Positions, n: int, legal_count: int, root: int) -> int:
    if legal_count:
        return 0
    side = positions[n - 1, 2]
    own, other = count_ones(positions[n - 1, side]), count_ones(positions[n - 1, ONE - side])
    if own == other:
        return 3
    return 1 if own > other else 2


@jit
def encode(positions: Positions, n: int, history: int, packed_features: npt.NDArray[np.uint64]) -> None:
    """Write four planes a position, newest first: own stones, the other's, as the present side to move sees
    them; cells with a stone to their left, and to their right. Then 1 if that side is the first player, else
    0."""
    side = positions[n - 1, 2]
    for back in range(history):
        own, other = ZERO, ZERO
        if back < n:
            own, other = positions[n - 1 - back, side], positions[n - 1 - back, ONE - side]
        stones = own | other
        packed_features[4 * back], packed_features[4 * back + 1] = own, other
        packed_features[4 * back + 2] = (stones & ~RIGHT_EDGE) << ONE
        packed_features[4 * back + 3] = (stones & ~LEFT_EDGE) >> ONE
    packed_features[4 * history] = ZERO if side else np.uint64(0x3F800000)


RULES = Rules(start, side_to_move, legal_actions, play, end_reason, encode)


def state_from_text(text: str) -> State:
    if not text:
        return np.zeros(3, np.uint64)
    board, _, mover = text.partition(" ")
    if (
        sorted(map(len, board.split("/"))) != [COLS] * ROWS
        or mover not in ("x", "o")
        or set(board) - set("xo./")
    ):
        raise ValueError(f"{text!r} is no position: write two rows and who moves, as in x.o./.... x")
    cells = board.replace("/", "")
    packed_features = [sum(1 << cell for cell, seen in enumerate(cells) if seen == letter) for letter in "xo"]
    return np.array([*packed_features, "xo".index(mover)], np.uint64)


def state_to_text(state: State) -> str:
    first, second, mover = (int(word) for word in state)
    cells = ["x" if first >> cell & 1 else "o" if second >> cell & 1 else "." for cell in range(CELLS)]
    return f"{''.join(cells[:COLS])}/{''.join(cells[COLS:])} {'xo'[mover]}"


def action_from_text(state: State, text: str) -> int:
    actions = np.zeros(CELLS, np.uint16)
    legal = actions[: legal_actions(state.reshape(1, -1), 1, actions)].tolist()
    if not text.isdecimal() or int(text) - 1 not in legal:
        raise ValueError(f"{text!r} is no empty cell of {state_to_text(state)}")
    return int(text) - 1


def _symmetry(name: str, cells: npt.NDArray[np.int64], planes: list[int]) -> Symmetry:
    flat = np.ascontiguousarray(cells).ravel()
    return Symmetry(name, flat, actions_like_cells(flat), np.array(planes))


_GRID = np.arange(CELLS).reshape(ROWS, COLS)

GAME = Game(
    name=NAME,
    rows=ROWS,
    cols=COLS,
    actions=CELLS,
    policy_planes=1,
    state_words=3,
    max_legal=CELLS,
    mean_legal=4.5,
    dirichlet_alpha=2.0,
    max_plies=CELLS,
    planes_per_position=4,
    scalar_planes=1,
    history=2,
    score=lambda state: int(state[0]).bit_count() - int(state[1]).bit_count(),
    end_reasons=END_REASONS,
    rules=RULES,
    notation=Notation(
        state_from_text=state_from_text,
        state_to_text=state_to_text,
        action_to_text=lambda _state, action: str(action + 1),
        action_from_text=action_from_text,
        render=lambda state: state_to_text(state).replace("/", "\n"),
    ),
    symmetries=(
        _symmetry("mirror_columns", _GRID[:, ::-1], [0, 1, 3, 2]),
        _symmetry("mirror_rows", _GRID[::-1], [0, 1, 2, 3]),
        _symmetry("rotate_180", _GRID[::-1, ::-1], [0, 1, 3, 2]),
    ),
)
GAME_MODULES.setdefault(NAME, "twice")
