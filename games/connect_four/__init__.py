"""Connect Four: seven columns of six; four in a row wins. Actions are columns 0-6, written 1-7.

Cell = 7 * row + column with row 0 at the bottom; the state is `games.small`'s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from games import small
from games.bits import ONE, ZERO, count_ones
from games.connect_four.sparse import SPARSE
from games.jit import jit
from games.spec import EndReason, Game, Positions, Rules, State, Symmetry

if TYPE_CHECKING:
    from games.knowledge import Knowledge

ROWS, COLS = 6, 7
CELLS = ROWS * COLS

FOUR_MADE, BOARD_FULL = 1, 2
END_REASONS = (EndReason("ongoing", 0), EndReason("four", -1), EndReason("board_full", 0))

_COLUMN = np.uint64(sum(1 << (COLS * row) for row in range(ROWS)))
"""Column 0."""
_FROM_LEFT = np.uint64(sum(int(_COLUMN) << col for col in range(COLS - 3)))
"""Cells with three more cells to their right."""
_FROM_RIGHT = np.uint64(sum(int(_COLUMN) << col for col in range(3, COLS)))
_TOP_ROW = np.uint64(CELLS - COLS)
_WIDTH = np.uint64(COLS)
_SIDEWAYS, _UP, _UP_RIGHT, _UP_LEFT = ONE, np.uint64(COLS), np.uint64(COLS + 1), np.uint64(COLS - 1)


@jit
def legal_actions(positions: Positions, n: int, actions: npt.NDArray[np.uint16]) -> int:
    """Write the columns that are not full, ascending, to `actions` [7]. Returns their number."""
    top = (positions[n - 1, 0] | positions[n - 1, 1]) >> _TOP_ROW
    count = 0
    for col in range(COLS):
        if not (top >> np.uint64(col)) & ONE:
            actions[count] = col
            count += 1
    return count


@jit
def play(parent: State, action: int, child: State) -> None:
    col = np.uint64(action)
    height = count_ones((parent[0] | parent[1]) & (_COLUMN << col))
    child[0] = parent[1]
    child[1] = parent[0] | (ONE << (height * _WIDTH + col))
    child[2] = parent[2] + ONE


@jit
def _starts_of_four(stones: int, step: int) -> int:
    """Cells with stones on them and on the next three, `step` bits apart, ignoring the ends of rows."""
    pairs = stones & (stones >> step)  # two in a row begin here; four are two such pairs, two steps apart
    return pairs & (pairs >> (step + step))


@jit
def has_four(stones: int) -> bool:
    """Whether there are four in a row; `stones` is a uint64."""
    found = _starts_of_four(stones, _UP)
    found |= (_starts_of_four(stones, _SIDEWAYS) | _starts_of_four(stones, _UP_RIGHT)) & _FROM_LEFT
    found |= _starts_of_four(stones, _UP_LEFT) & _FROM_RIGHT
    return found != ZERO


@jit
def end_reason(positions: Positions, n: int, legal_count: int, root: int) -> int:
    if has_four(positions[n - 1, 1]):
        return FOUR_MADE
    return BOARD_FULL if legal_count == 0 else 0


RULES = Rules(small.start, small.side_to_move, legal_actions, play, end_reason, small.encode)


def _state_from_text(text: str) -> State:
    state = small.stones_from_text(text, ROWS, COLS, lambda stones: bool(has_four(np.uint64(stones))))
    taken = int(state[0]) | int(state[1])
    floating = (taken >> COLS) & ~taken
    if floating:
        row, col = divmod((floating & -floating).bit_length() - 1, COLS)
        raise ValueError(
            f"column {col + 1} has a stone above the empty cell of row {row + 1} from the bottom"
        )
    return state


NOTATION = small.notation(
    RULES,
    _state_from_text,
    rows=ROWS,
    cols=COLS,
    noun="column",
    actions=COLS,
    footer=" ".join(str(col + 1) for col in range(COLS)),
)


def _mirror() -> Symmetry:
    cells = np.arange(CELLS, dtype=np.int64).reshape(ROWS, COLS)[:, ::-1]
    return Symmetry("mirror_columns", np.ascontiguousarray(cells).ravel(), np.arange(COLS)[::-1].copy())


def _knowledge() -> Knowledge:
    from games.connect_four.knowledge import KNOWLEDGE

    return KNOWLEDGE


GAME = Game(
    name="connect_four",
    rows=ROWS,
    cols=COLS,
    actions=COLS,
    policy_planes=None,
    state_words=small.STATE_WORDS,
    max_legal=COLS,
    mean_legal=6.5,
    dirichlet_alpha=1.0,
    max_plies=CELLS,
    planes_per_position=small.PLANES_PER_POSITION,
    scalar_planes=small.SCALAR_PLANES,
    history=1,
    end_reasons=END_REASONS,
    rules=RULES,
    notation=NOTATION,
    symmetries=(_mirror(),),
    knowledge=_knowledge,
    sparse=SPARSE,
)
