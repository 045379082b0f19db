"""Connect Four: seven columns of six cells; four in a row wins. Actions are columns 0-6, written 1-7.

Cell = 7 * row + column with row 0 at the bottom; the state is that of `games.small`.

A sparse network reads lines of four, and columns. A line with stones of only one side is a feature, with
whose stones they are and on which of its cells. A column is a feature, with its height, the lowest cell that
completes four for each side, and who began, which decides who gets which cells in the end. An action has
three rows: its column with the lowest cell that completes four for the own side, the same for the other side,
and what the stone makes and prevents.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from azselfplay.games import small
from azselfplay.games.bits import ONE, ZERO, count_ones, count_trailing_zeros, scratch_int32
from azselfplay.games.jit import jit, signed
from azselfplay.games.spec import EndReason, Game, Positions, Rules, SparseFeatures, State, Symmetry
from azselfplay.games.stubs import Actions, Numbers, Words

ROWS, COLS = 6, 7
CELLS = ROWS * COLS

FOUR_MADE, BOARD_FULL = 1, 2
# Values are for the side to move, which has lost: the other side has just made four.
END_REASONS = (EndReason("ongoing", 0), EndReason("four", -1), EndReason("board_full", 0))

_COLUMN = np.uint64(sum(1 << (COLS * row) for row in range(ROWS)))
"""Column 0."""
_FROM_LEFT = np.uint64(sum(int(_COLUMN) << col for col in range(COLS - 3)))
"""Cells with at least three more cells to their right."""
_FROM_RIGHT = np.uint64(sum(int(_COLUMN) << col for col in range(3, COLS)))
_TOP_ROW = np.uint64(CELLS - COLS)
_SIDEWAYS, _UP, _UP_RIGHT, _UP_LEFT = ONE, np.uint64(COLS), np.uint64(COLS + 1), np.uint64(COLS - 1)


# ---- Rules ---------------------------------------------------------------------------------------


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
    # A column has no gaps, so its number of stones is the row of the next one.
    height = count_ones((parent[0] | parent[1]) & (_COLUMN << col))
    # The stones of the side to move come first, so the words are swapped.
    child[0] = parent[1]
    child[1] = parent[0] | (ONE << (height * _UP + col))
    child[2] = parent[2] + ONE


@jit
def _starts_of_four(stones: int, step: int) -> int:
    """Return the cells that have stones on them and on the next three cells, `step` bits apart. Ends of rows
    are ignored."""
    pairs = stones & (stones >> step)  # starts of two in a row; four in a row are two pairs, two steps apart
    return pairs & (pairs >> (step + step))


@jit
def has_four(stones: int) -> bool:
    """Return whether there are four in a row; `stones` is a uint64."""
    found = _starts_of_four(stones, _UP)
    # Lines to the right must begin in the four left columns; others would wrap to the next row.
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
    # Empty cells below a stone.
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


# ---- Sparse features -----------------------------------------------------------------------------


STEPS = np.array([COLS * up + right for up, right in small.DIRECTIONS], np.uint64)


_BEGINS = np.array(
    [
        [cell // COLS + 3 * up < ROWS and 0 <= cell % COLS + 3 * right < COLS for cell in range(CELLS)]
        for up, right in small.DIRECTIONS
    ]
)
"""[4, 42] by direction and cell: whether a line begins there."""
LINE_AT = np.where(_BEGINS, _BEGINS.ravel().cumsum().reshape(4, CELLS) - 1, 0)
"""[4, 42] the number of the line that begins there."""
STARTS = np.array([sum(1 << int(cell) for cell in np.flatnonzero(row)) for row in _BEGINS], np.uint64)
"""[4] by direction: the cells on which a line begins."""
LINES = 69
SEEN_LINES = LINES * 15 * 2
"""Number of features of lines: the line, 1 to 15 for the cells with stones, and whose stones they are."""
NOWHERE = ROWS
"""Used as the row if no cell of a column completes four."""
HEIGHTS = ROWS + 1
HALF_COLUMNS = COLS * HEIGHTS * HEIGHTS * 2
"""Combinations of a column, its height, the lowest cell that completes four for one side, and who began."""
HALVES = 2 * COLS
FEATURES = SEEN_LINES + HALF_COLUMNS * HEIGHTS
MOST_ACTIVE = LINES + COLS

FIRST_OTHER = HALF_COLUMNS
FIRST_TACTIC = 2 * HALF_COLUMNS
TACTICS = 16 * 27
"""See `_tactic`."""

_BOARD = np.uint64((1 << CELLS) - 1)
_BOTTOM = np.uint64((1 << COLS) - 1)

_TWO, _THREE = np.uint64(2), np.uint64(3)


@jit
def _completing(stones: np.uint64, occupied: np.uint64) -> np.uint64:
    """Return the empty cells on which one more stone would complete four of `stones`."""
    found = ZERO
    for direction in range(4):
        step, starts = STEPS[direction], STARTS[direction]
        first, second = stones & starts, (stones >> step) & starts
        third, fourth = (stones >> (_TWO * step)) & starts, (stones >> (_THREE * step)) & starts
        low, high = first & second, third & fourth
        found |= second & high
        found |= (first & high) << step
        found |= (low & fourth) << (_TWO * step)
        found |= (low & third) << (_THREE * step)
    return found & ~occupied


@jit
def _touched(stones: np.uint64, step: np.uint64) -> np.uint64:
    """Return the cells that begin a run of four cells with at least one of `stones` on it."""
    return stones | (stones >> step) | (stones >> (_TWO * step)) | (stones >> (_THREE * step))


@jit
def _lowest_row(cells: np.uint64, column: np.uint64) -> int:
    here = cells & column
    return signed(count_trailing_zeros(here)) // COLS if here else NOWHERE


@jit
def _at_most_two(cells: np.uint64) -> int:
    return min(signed(count_ones(cells)), 2)


@jit
def _tactic(own: np.uint64, other: np.uint64, wins: np.uint64, losses: np.uint64, stone: np.uint64) -> int:
    """Return what a stone makes and prevents, as one number.

    Four bits: whether the stone completes four; whether the other side would complete four there; whether the
    own side, and whether the other side, would complete four on the cell above. Then three counts, each at
    most two: new cells that complete four for the mover; cells that do so and can be played at once; and
    cells that would newly complete four for the other side if the stone were theirs.
    """
    above, occupied = stone << _UP, own | other | stone
    found = (1 if wins & stone else 0) + (2 if losses & stone else 0)
    found += (4 if wins & above else 0) + (8 if losses & above else 0)
    made = _completing(own | stone, occupied)
    # A cell is playable if the cell below it is taken, or if it is at the bottom.
    reached = made & ((occupied << _UP) | _BOTTOM)
    spoilt = _completing(other | stone, occupied) & ~losses
    found = found * 3 + _at_most_two(made & ~wins)
    return (found * 3 + _at_most_two(reached)) * 3 + _at_most_two(spoilt)


@jit
def describe(
    packed_features: Words, history: int, actions: Actions, count: int, active: Numbers, rows: Numbers
) -> int:
    """Write the active features of a position and the rows of its legal actions (`games.spec`)."""
    # Features may come from another machine: clear bits beyond the board and second stones on a cell.
    own = packed_features[0] & _BOARD
    other = packed_features[1] & _BOARD & ~own
    began = 1 if packed_features[2 * history] != ZERO else 0
    occupied = own | other
    found = 0
    for direction in range(4):
        step = STEPS[direction]
        others = _touched(other, step)
        # Take lines with stones of exactly one side: nobody can fill lines with stones of both, and empty
        # lines say nothing.
        left = (_touched(own, step) ^ others) & STARTS[direction]
        while left:
            start = count_trailing_zeros(left)
            left &= left - ONE
            whose = signed((others >> start) & ONE)
            # The stones on the line, as four bits.
            line = (other if whose else own) >> start
            stones = (line & ONE) | ((line >> step) & ONE) << ONE
            stones |= ((line >> (_TWO * step)) & ONE) << _TWO | ((line >> (_THREE * step)) & ONE) << _THREE
            active[found] = (LINE_AT[direction, start] * 15 + signed(stones) - 1) * 2 + whose
            found += 1

    wins, losses = _completing(own, occupied), _completing(other, occupied)
    # Computed once for each column, and used for the rows of its action.
    halves = scratch_int32(HALVES)
    for col in range(COLS):
        column = _COLUMN << np.uint64(col)
        at = col * HEIGHTS + signed(count_ones(occupied & column))
        ours, theirs = _lowest_row(wins, column), _lowest_row(losses, column)
        halves[2 * col] = (at * HEIGHTS + ours) * 2 + began
        halves[2 * col + 1] = (at * HEIGHTS + theirs) * 2 + began
        active[found] = SEEN_LINES + ((at * HEIGHTS + ours) * HEIGHTS + theirs) * 2 + began
        found += 1
    for i in range(count):
        col = signed(actions[i])
        height = count_ones(occupied & (_COLUMN << np.uint64(col)))
        # `_BOARD` matters only for a full column, which is possible only in features from another machine.
        stone = (ONE << (height * _UP + np.uint64(col))) & _BOARD
        rows[3 * i] = halves[2 * col]
        rows[3 * i + 1] = FIRST_OTHER + halves[2 * col + 1]
        rows[3 * i + 2] = FIRST_TACTIC + _tactic(own, other, wins, losses, stone)
    return found


# The parts of which the numbers of column features in `describe` consist.
_AT, _OURS, _THEIRS, _BEGAN = np.indices((COLS * HEIGHTS, HEIGHTS, HEIGHTS, 2)).reshape(4, -1)
SHARED = np.full((FEATURES, 3), -1, np.int32)
"""[FEATURES, 3] for column features: rows shared with the features that have the same lowest cell of the own
side, the same lowest cell of the other side, and the same height."""
SHARED[SEEN_LINES:, 0] = (_AT * HEIGHTS + _OURS) * 2 + _BEGAN
SHARED[SEEN_LINES:, 1] = HALF_COLUMNS + (_AT * HEIGHTS + _THEIRS) * 2 + _BEGAN
SHARED[SEEN_LINES:, 2] = 2 * HALF_COLUMNS + _AT * 2 + _BEGAN

SPARSE = SparseFeatures(
    name="connect_four-lines-1",
    features=FEATURES,
    most_active=MOST_ACTIVE,
    tables=3,
    action_rows=FIRST_TACTIC + TACTICS,
    describe=describe,
    shared=SHARED,
)


# ---- The game ------------------------------------------------------------------------------------


_MIRRORED = np.arange(CELLS, dtype=np.int64).reshape(ROWS, COLS)[:, ::-1]
_MIRROR = Symmetry("mirror_columns", _MIRRORED.ravel(), np.arange(COLS)[::-1].copy())

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
    symmetries=(_MIRROR,),
    knowledge="azselfplay.games.connect_four.knowledge",
    sparse=SPARSE,
)
