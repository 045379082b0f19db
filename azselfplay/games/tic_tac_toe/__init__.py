"""Tic-tac-toe. It is so small that all games can be counted, so the tests can check everything.

Cells and actions are 0-8, row by row from the bottom left; the state is that of `games.small`. A sparse
network reads the stones on cells, and the pattern of stones on each line. An action has two rows: its cell,
and what the stone does on the lines through it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from azselfplay.games import small
from azselfplay.games.bits import ONE, ZERO, count_ones, count_trailing_zeros
from azselfplay.games.jit import jit, signed
from azselfplay.games.spec import EndReason, Game, Positions, Rules, SparseFeatures, State
from azselfplay.games.stubs import Actions, Numbers, Words

ROWS, COLS = 3, 3
CELLS = ROWS * COLS

LINE_MADE, BOARD_FULL = 1, 2
END_REASONS = (EndReason("ongoing", 0), EndReason("line", -1), EndReason("board_full", 0))

LINE_BOARDS = small.windows_of(ROWS, COLS, 3)


# ---- Rules ---------------------------------------------------------------------------------------


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
    """Return whether there are three in a row; `stones` is a uint64."""
    for line in LINE_BOARDS:  # noqa: SIM110 - Numba compiles loops, not generators
        if stones & line == line:
            return True
    return False


@jit
def end_reason(positions: Positions, n: int, legal_count: int, root: int) -> int:
    if has_line(positions[n - 1, 1]):
        return LINE_MADE
    return BOARD_FULL if legal_count == 0 else 0


RULES = Rules(small.start, small.side_to_move, legal_actions, play, end_reason, small.encode)


NOTATION = small.notation(
    RULES,
    lambda text: small.stones_from_text(text, ROWS, COLS, lambda stones: has_line(np.uint64(stones))),
    rows=ROWS,
    cols=COLS,
    noun="cell",
    actions=CELLS,
    beside=("7 8 9", "4 5 6", "1 2 3"),
)


# ---- Sparse features -----------------------------------------------------------------------------


LINES = len(LINE_BOARDS)
PATTERNS = 27
"""A line's cells as a base-3 number, the lowest cell first: 0 empty, 1 an own stone, 2 the other side's."""
FIRST_LINE = 2 * CELLS
FEATURES = FIRST_LINE + LINES * PATTERNS
MOST_ACTIVE = CELLS + LINES

FIRST_TACTIC = CELLS
TACTICS = 2 * 2 * 3
"""Whether the stone wins; whether it stops the other side from winning there; number of lines on which it
makes a threat, at most 2."""

_BOARD = np.uint64((1 << CELLS) - 1)
_TWO = np.uint64(2)


@jit
def describe(
    packed_features: Words, history: int, actions: Actions, count: int, active: Numbers, rows: Numbers
) -> int:
    """Write the active features of a position and the rows of its legal actions (`games.spec`)."""
    # Features may come from another machine: clear bits beyond the board and second stones on a cell.
    own = packed_features[0] & _BOARD
    other = packed_features[1] & _BOARD & ~own
    found = 0
    for cell in range(CELLS):
        bit = np.uint64(cell)
        if ((own | other) >> bit) & ONE:
            active[found] = 2 * cell + signed((other >> bit) & ONE)
            found += 1
    for line in range(LINES):
        # Read the three cells of a line as a base-3 number (`PATTERNS`).
        left, pattern, worth = LINE_BOARDS[line], 0, 1
        while left:
            at = count_trailing_zeros(left)
            left &= left - ONE
            pattern += worth * (signed((own >> at) & ONE) + 2 * signed((other >> at) & ONE))
            worth *= 3
        active[found] = FIRST_LINE + line * PATTERNS + pattern
        found += 1
    for i in range(count):
        cell = signed(actions[i])
        wins = stops = threats = 0
        for board in LINE_BOARDS:
            if (board >> np.uint64(cell)) & ONE:
                mine, his = count_ones(own & board), count_ones(other & board)
                if mine == _TWO:
                    wins = 1
                elif his == _TWO:
                    stops = 1
                elif mine == ONE and his == ZERO:
                    threats = min(threats + 1, 2)
        rows[2 * i] = cell
        rows[2 * i + 1] = FIRST_TACTIC + (wins * 2 + stops) * 3 + threats
    return found


SPARSE = SparseFeatures(
    name="tic_tac_toe-lines-1",
    features=FEATURES,
    most_active=MOST_ACTIVE,
    tables=2,
    action_rows=FIRST_TACTIC + TACTICS,
    describe=describe,
)


# ---- The game ------------------------------------------------------------------------------------


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
    knowledge="azselfplay.games.tic_tac_toe.knowledge",
    few_positions=True,
    sparse=SPARSE,
)
