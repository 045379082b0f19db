"""Tic-tac-toe: small enough to count every game, so the tests know everything about it.

Cells and actions are 0-8, row by row from the bottom left; the state is `games.small`'s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from games import small
from games.bits import ONE
from games.jit import jit
from games.spec import EndReason, Game, Positions, Rules, State
from games.tic_tac_toe.sparse import SPARSE

if TYPE_CHECKING:
    from games.knowledge import Knowledge

ROWS, COLS = 3, 3
CELLS = ROWS * COLS

LINE_MADE, BOARD_FULL = 1, 2
END_REASONS = (EndReason("ongoing", 0), EndReason("line", -1), EndReason("board_full", 0))

_LINES = np.array([0o007, 0o070, 0o700, 0o111, 0o222, 0o444, 0o421, 0o124], dtype=np.uint64)


@jit
def legal_actions(positions: Positions, n: int, actions: npt.NDArray[np.uint16]) -> int:
    """Write the empty cells, ascending, to `actions` [9]. Returns their number."""
    taken = positions[n - 1, 0] | positions[n - 1, 1]
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
def has_line(stones: int) -> bool:
    """Whether there are three in a row; `stones` is a uint64."""
    for pattern in _LINES:  # noqa: SIM110 - Numba compiles loops, not generators
        if stones & pattern == pattern:
            return True
    return False


@jit
def end_reason(positions: Positions, n: int, legal_count: int, root: int) -> int:
    if has_line(positions[n - 1, 1]):
        return LINE_MADE
    return BOARD_FULL if legal_count == 0 else 0


RULES = Rules(small.start, small.side_to_move, legal_actions, play, end_reason, small.encode)


def _state_from_text(text: str) -> State:
    return small.stones_from_text(text, ROWS, COLS, lambda stones: bool(has_line(np.uint64(stones))))


NOTATION = small.notation(
    RULES,
    _state_from_text,
    rows=ROWS,
    cols=COLS,
    noun="cell",
    actions=CELLS,
    beside=("7 8 9", "4 5 6", "1 2 3"),
)


def _knowledge() -> Knowledge:
    from games.tic_tac_toe.knowledge import KNOWLEDGE

    return KNOWLEDGE


GAME = Game(
    name="tic_tac_toe",
    rows=ROWS,
    cols=COLS,
    actions=CELLS,
    policy_planes=1,
    state_words=small.STATE_WORDS,
    max_legal=CELLS,
    mean_legal=5.0,
    dirichlet_alpha=2.0,
    max_plies=CELLS,
    planes_per_position=small.PLANES_PER_POSITION,
    scalar_planes=small.SCALAR_PLANES,
    history=1,
    end_reasons=END_REASONS,
    rules=RULES,
    notation=NOTATION,
    symmetries=small.square_symmetries(ROWS),
    knowledge=_knowledge,
    few_positions=True,
    sparse=SPARSE,
)
