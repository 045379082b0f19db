"""Tic-tac-toe. Cells 0-8 row by row from the bottom left; the first player plays crosses.

State: word 0 the stones of the side to move, word 1 those of the other, word 2 stones played so far.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from games import small
from games.bits import ONE, ZERO
from games.jit import jit
from games.spec import EndReason, Game, Line, Notation, Rules, State

ROWS, COLS = 3, 3
CELLS = ROWS * COLS
STATE_WORDS = 3
MAX_LEGAL = CELLS

LINE_MADE, BOARD_FULL = 1, 2
END_REASONS = (EndReason("ongoing", 0), EndReason("line", -1), EndReason("board_full", 0))

_LINES = np.array([0o007, 0o070, 0o700, 0o111, 0o222, 0o444, 0o421, 0o124], dtype=np.uint64)


@jit
def start(state: State) -> None:
    state[:] = ZERO


@jit
def side_to_move(state: State) -> int:
    return int(state[2] & ONE)


@jit
def legal_actions(line: Line, n: int, actions: npt.NDArray[np.uint16]) -> int:
    state = line[n - 1]
    taken = state[0] | state[1]
    count = 0
    for cell in range(CELLS):
        if not (taken >> np.uint64(cell)) & ONE:
            actions[count] = cell
            count += 1
    return count


@jit
def play(parent: State, action: int, child: State) -> None:
    child[0] = parent[1]
    child[1] = parent[0] | (ONE << np.uint64(action))
    child[2] = parent[2] + ONE


@jit
def end_reason(line: Line, n: int, legal_count: int, in_search: bool) -> int:
    stones = line[n - 1, 1]
    for pattern in _LINES:
        if stones & pattern == pattern:
            return LINE_MADE
    return BOARD_FULL if legal_count == 0 else 0


GAME = Game(
    name="tic_tac_toe",
    rows=ROWS,
    cols=COLS,
    actions=CELLS,
    policy_planes=1,
    state_words=STATE_WORDS,
    max_legal=MAX_LEGAL,
    mean_legal=5.0,
    dirichlet_alpha=2.0,
    max_plies=CELLS,
    planes_per_position=2,
    scalar_planes=0,
    history=1,
    end_reasons=END_REASONS,
    rules=Rules(start, side_to_move, legal_actions, play, end_reason, small.encode),
    notation=Notation(
        state_from_text=lambda text: _from_text(text),
        state_to_text=lambda state: small.stones_to_text(state, CELLS),
        action_to_text=lambda state, action: str(action + 1),
        action_from_text=lambda state, text: small.action_from_number(GAME, state, text, "cell"),
        draw=lambda state: small.draw(state, ROWS, COLS),
    ),
    symmetries=small.square_symmetries(ROWS),
)


def _from_text(text: str) -> State:
    return small.stones_from_text(GAME, text)
