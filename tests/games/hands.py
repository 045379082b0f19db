"""A game that needs everything that Go and shogi need and other games do not; for tests only. Importing it
registers it with `get_game`.

Both players have pieces of nine kinds in hand, two of each. A move either drops one on an empty cell of 6 x
11 and takes the other's pieces of lower kinds beside it into the own hand, or it is a pass; two passes in a
row end the game. A piece on the board counts its kind (1 to 9), and the second player gets half a point: more
points win.

State: 9 words with a byte for each cell (0 empty, kind for the first player's, 9 + kind for the second's); a
word for each hand, four bits a kind; a word with the side to move (bit 0), passes in a row (bits 1, 2) and
from bit 8 on the cell of the last drop plus 1.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import numpy.typing as npt

from azselfplay.games.bits import ONE, ZERO, float_as_word
from azselfplay.games.jit import jit, signed
from azselfplay.games.names import GAME_MODULES
from azselfplay.games.spec import (
    CodedCells,
    EndReason,
    Game,
    Notation,
    PackedScalars,
    Positions,
    Rules,
    State,
    Symmetry,
    actions_like_cells,
)

ROWS, COLS, KINDS = 6, 11, 9
CELLS = ROWS * COLS
PASS = KINDS * CELLS
ACTIONS = PASS + 1
OF_EACH, IN_ALL = 2, 4
"""Pieces of a kind in one hand at the start, and in the whole game."""
KOMI = 0.5
HANDS, TURN = 9, 11
STATE_WORDS = 12
CODE_BITS, CELLS_A_WORD = 5, 12
PLANE_WORDS, CODE_WORDS, HAND_WORDS = 2, 6, 2
"""Words of a position in the features. A hand's 9 fields of 4 bits are those of the state: 16 fields, 2
fields."""
BYTE, NIBBLE = np.uint64(255), np.uint64(15)

NAME = f"hands_{hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:8]}"
"""The name has a hash of this file, because kernels that call these rules are cached under the game's
name."""


@jit
def start(state: State) -> None:
    state[:] = ZERO
    for side in range(2):
        for kind in range(KINDS):
            state[HANDS + side] |= np.uint64(OF_EACH) << np.uint64(4 * kind)


@jit
def side_to_move(state: State) -> int:
    return signed(state[TURN] & ONE)


@jit
def passes(state: State) -> int:
    return signed((state[TURN] >> ONE) & np.uint64(3))


@jit
def code_at(state: State, cell: int) -> int:
    return signed((state[cell // 8] >> np.uint64(8 * (cell % 8))) & BYTE)


@jit
def change(state: State, cell: int, code: int) -> None:
    shift = np.uint64(8 * (cell % 8))
    state[cell // 8] = (state[cell // 8] & ~(BYTE << shift)) | (np.uint64(code) << shift)


@jit
def in_hand(state: State, side: int, kind: int) -> int:
    return signed((state[HANDS + side] >> np.uint64(4 * kind)) & NIBBLE)


@jit
def legal_actions(positions: Positions, n: int, actions: npt.NDArray[np.uint16]) -> int:
    state = positions[n - 1]
    side, count = side_to_move(state), 0
    for kind in range(KINDS):
        if in_hand(state, side, kind) > 0:
            for cell in range(CELLS):
                if code_at(state, cell) == 0:
                    actions[count] = kind * CELLS + cell
                    count += 1
    actions[count] = PASS
    return count + 1


@jit
def take(child: State, cell: int, side: int, kind: int) -> None:
    """Take the other's piece on `cell` into the own hand if it is of a lower kind."""
    code = code_at(child, cell) - 1
    if code >= 0 and code // KINDS == 1 - side and code % KINDS < kind:
        change(child, cell, 0)
        child[HANDS + side] += ONE << np.uint64(4 * (code % KINDS))


@jit
def play(parent: State, action: int, child: State) -> None:
    for word in range(STATE_WORDS):
        child[word] = parent[word]
    side, action = side_to_move(parent), signed(action)
    if action == PASS:
        child[TURN] = np.uint64(1 - side + 2 * (passes(parent) + 1))
        return
    kind, cell = action // CELLS, action % CELLS
    change(child, cell, 1 + side * KINDS + kind)
    child[HANDS + side] -= ONE << np.uint64(4 * kind)
    if cell % COLS > 0:
        take(child, cell - 1, side, kind)
    if cell % COLS < COLS - 1:
        take(child, cell + 1, side, kind)
    if cell >= COLS:
        take(child, cell - COLS, side, kind)
    if cell < CELLS - COLS:
        take(child, cell + COLS, side, kind)
    child[TURN] = np.uint64(1 - side + 256 * (cell + 1))


@jit
def points(state: State, side: int) -> int:
    total = 0
    for cell in range(CELLS):
        code = code_at(state, cell) - 1
        if code >= 0 and code // KINDS == side:
            total += code % KINDS + 1
    return total


@jit
def end_reason(positions: Positions, n: int, legal_count: int, root: int) -> int:
    state = positions[n - 1]
    if passes(state) < 2:
        return 0
    first_wins = points(state, 0) > points(state, 1)
    return 1 if first_wins == (side_to_move(state) == 0) else 2


@jit
def encode(positions: Positions, n: int, history: int, packed_features: npt.NDArray[np.uint64]) -> None:
    """Write the features. Bit plane: the cell of the last drop. Codes: own pieces 1 to 9, the other's 10 to
    18. Packed: both hands; then 1 for the first player. As a float32: passes in a row, divided by 2."""
    side = side_to_move(positions[n - 1])
    for word in range(len(packed_features)):
        packed_features[word] = ZERO
    codes = PLANE_WORDS * history
    hands = codes + CODE_WORDS * history
    for back in range(min(history, n)):
        state = positions[n - 1 - back]
        last = signed(state[TURN] >> np.uint64(8)) - 1
        if last >= 0:
            packed_features[PLANE_WORDS * back + last // 64] = ONE << np.uint64(last % 64)
        for cell in range(CELLS):
            code = code_at(state, cell)
            if side == 1 and code > 0:
                code = code + KINDS if code <= KINDS else code - KINDS
            word = codes + CODE_WORDS * back + cell // CELLS_A_WORD
            packed_features[word] |= np.uint64(code) << np.uint64(CODE_BITS * (cell % CELLS_A_WORD))
        own, other = state[HANDS + side], state[HANDS + 1 - side]
        packed_features[hands + HAND_WORDS * back] = own | other << np.uint64(4 * KINDS)
        packed_features[hands + HAND_WORDS * back + 1] = other >> np.uint64(64 - 4 * KINDS)
    passed = np.float32(passes(positions[n - 1]))
    packed_features[hands + HAND_WORDS * history] = np.uint64(1 - side)
    packed_features[hands + HAND_WORDS * history + 1] = float_as_word(passed / np.float32(2))


RULES = Rules(start, side_to_move, legal_actions, play, end_reason, encode)
LETTERS = ".abcdefghiABCDEFGHI"
"""The letter of each code."""


def state_from_text(text: str) -> State:
    """Read six rows, both hands, side to move, passes in a row, and the cell of the last drop. Raises
    ValueError."""
    state = np.zeros(STATE_WORDS, np.uint64)
    if not text:
        start(state)
        return state
    parts = text.split()
    board = parts[0].replace("/", "") if len(parts) == 6 else ""
    if len(board) != CELLS or set(board) - set(LETTERS) or not all(map(str.isdecimal, parts[1:])):
        raise ValueError(f"{text!r} is no position: six rows of letters, two hands and three numbers")
    for cell, letter in enumerate(board):
        change(state, cell, LETTERS.index(letter))
    for side in range(2):
        state[HANDS + side] = sum(int(digit) << 4 * kind for kind, digit in enumerate(parts[1 + side]))
    mover, passed, last = map(int, parts[3:])
    state[TURN] = mover + 2 * passed + 256 * last
    return state


def state_to_text(state: State) -> str:
    board = "".join(LETTERS[code_at(state, cell)] for cell in range(CELLS))
    rows = "/".join(board[row * COLS : (row + 1) * COLS] for row in range(ROWS))
    hands = ["".join(str(in_hand(state, side, kind)) for kind in range(KINDS)) for side in range(2)]
    return " ".join([rows, *hands, str(side_to_move(state)), str(passes(state)), str(int(state[TURN]) >> 8)])


def action_to_text(_state: State, action: int) -> str:
    return "pass" if action == PASS else f"{LETTERS[1 + action // CELLS]}{action % CELLS + 1}"


def action_from_text(state: State, text: str) -> int:
    if text == "pass":
        return PASS
    kind, cell = LETTERS.find(text[:1] or "?") - 1, int(text[1:]) - 1 if text[1:].isdecimal() else -1
    legal = 0 <= kind < KINDS and 0 <= cell < CELLS and not code_at(state, cell)
    if not legal or not in_hand(state, side_to_move(state), kind):
        raise ValueError(f"{text!r} is no drop that can be made here")
    return kind * CELLS + cell


def _symmetry(name: str, grid: npt.NDArray[np.int64]) -> Symmetry:
    cells = np.ascontiguousarray(grid).ravel()
    return Symmetry(name, cells, actions_like_cells(cells, KINDS, extra_actions=1))


_GRID = np.arange(CELLS).reshape(ROWS, COLS)
OWN, OTHER = 2 * KINDS, 2 * KINDS + 1
"""Planes of all own pieces, and of all of the other's."""

GAME = Game(
    name=NAME,
    rows=ROWS,
    cols=COLS,
    actions=ACTIONS,
    policy_planes=KINDS,
    extra_actions=1,
    state_words=STATE_WORDS,
    max_legal=ACTIONS,
    mean_legal=200.0,
    dirichlet_alpha=0.05,
    max_plies=90,
    planes_per_position=1,
    coded_cells=CodedCells(
        CODE_BITS,
        ((), *((kind, OWN) for kind in range(KINDS)), *((KINDS + kind, OTHER) for kind in range(KINDS))),
    ),
    scalars_per_position=PackedScalars(((4, IN_ALL),) * (2 * KINDS)),
    scalars_once=PackedScalars(((1, 1),)),
    scalar_planes=1,
    legal_as_mask=True,
    history=2,
    score=lambda state: points(state, 0) - points(state, 1) - KOMI,
    end_reasons=(EndReason("ongoing", 0), EndReason("more_points", 1), EndReason("fewer_points", -1)),
    rules=RULES,
    notation=Notation(
        state_from_text=state_from_text,
        state_to_text=state_to_text,
        action_to_text=action_to_text,
        action_from_text=action_from_text,
        render=lambda state: state_to_text(state).replace("/", "\n"),
    ),
    symmetries=(
        _symmetry("mirror_columns", _GRID[:, ::-1]),
        _symmetry("mirror_rows", _GRID[::-1]),
        _symmetry("rotate_180", _GRID[::-1, ::-1]),
    ),
)
GAME_MODULES.setdefault(NAME, "hands")
