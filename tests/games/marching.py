"""A small game for tests of pictures: its moves name two cells (`b1b2`). Its rules are not compiled.

On a board of 3 x 5, the first player's men begin in row 1 and go up; the second player's begin in row 5 and
go down. A man goes one row straight on to an empty cell. A player who cannot move loses.
"""

from typing import Any

import numpy as np

from azselfplay.games import small
from azselfplay.games.spec import EndReason, Game, Notation, Rules, State, Symmetry, actions_like_cells

ROWS, COLS = 5, 3
CELLS = ROWS * COLS


def start(state: State) -> None:
    state[:] = 0b111, 0b111 << 12, 0


def target(state: State, cell: int) -> int:
    return cell + (-COLS if state[2] else COLS)


def legal_actions(positions: Any, n: int, actions: Any) -> int:
    own, other, _ = (int(word) for word in positions[n - 1])
    goals = {cell: target(positions[n - 1], cell) for cell in range(CELLS) if own >> cell & 1}
    found = [cell for cell, goal in goals.items() if 0 <= goal < CELLS and not ((own | other) >> goal) & 1]
    actions[: len(found)] = found
    return len(found)


def play(parent: State, action: int, child: State) -> None:
    own, other, side = (int(word) for word in parent)
    child[:] = other, own ^ (1 << action | 1 << target(parent, action)), 1 - side


def end_reason(positions: Any, n: int, legal_count: int, root: int) -> int:
    return int(legal_count == 0)


def action_to_text(state: State, action: int) -> str:
    return "".join(f"{'abc'[cell % COLS]}{cell // COLS + 1}" for cell in (action, target(state, action)))


def state_from_text(text: str) -> State:
    state = np.zeros(3, np.uint64)
    start(state)
    return state


def action_from_text(state: State, text: str) -> int:
    return "abc".index(text[0]) + COLS * (int(text[1]) - 1)


_MIRROR = np.arange(CELLS).reshape(ROWS, COLS)[:, ::-1].ravel().copy()

GAME = Game(
    name="marching",
    rows=ROWS,
    cols=COLS,
    actions=CELLS,
    policy_planes=1,
    state_words=small.STATE_WORDS,
    max_legal=COLS,
    mean_legal=2.5,
    dirichlet_alpha=1.0,
    max_plies=20,
    planes_per_position=small.PLANES_PER_POSITION,
    scalar_planes=small.SCALAR_PLANES,
    history=1,
    end_reasons=(EndReason("ongoing", 0), EndReason("blocked", -1)),
    rules=Rules(start, small.side_to_move, legal_actions, play, end_reason, small.encode),
    notation=Notation(state_from_text, lambda state: str(state), action_to_text, action_from_text, str),
    symmetries=(Symmetry("mirror", _MIRROR, actions_like_cells(_MIRROR)),),
)
