"""What a sparse network reads of Connect Four: lines of four, and columns.

A feature is a line with stones of one side only: whose they are, and on which of its cells. Or it is a
column: its height, the lowest cells that complete four for either side, and who began, which decides who
gets which cells in the end. An action has three rows: its column as it concerns the own four, its column as
it concerns the other's, and what the stone makes and prevents.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from games.bits import ONE, ZERO, count_ones, count_trailing_zeros
from games.jit import jit, signed
from games.scratch import scratch_int32
from games.spec import SparseFeatures
from games.stubs import Actions, Numbers, Words

ROWS, COLS = 6, 7
CELLS = ROWS * COLS
DIRECTIONS = ((0, 1), (1, 0), (1, 1), (1, -1))
"""(rows, columns) of a step along a line."""
STEPS = np.array([COLS * up + right for up, right in DIRECTIONS], np.uint64)


def _lines() -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint64]]:
    """[4, 42] the number of the line that begins on a cell in each direction; [4] the cells that begin
    one."""
    numbers, starts, found = np.zeros((4, CELLS), np.int64), [0] * 4, 0
    for direction, (up, right) in enumerate(DIRECTIONS):
        for cell in range(CELLS):
            row, col = divmod(cell, COLS)
            if row + 3 * up < ROWS and 0 <= col + 3 * right < COLS:
                numbers[direction, cell], found = found, found + 1
                starts[direction] |= 1 << cell
    return numbers, np.array(starts, np.uint64)


LINE_AT, STARTS = _lines()
LINES = 69
SEEN_LINES = LINES * 15 * 2
"""Features of lines: the line, 1 to 15 for the cells with stones, whose they are."""
NOWHERE = ROWS
"""Stands for a row where no cell of a column completes four."""
HEIGHTS = ROWS + 1
HALF_COLUMNS = COLS * HEIGHTS * HEIGHTS * 2
"""A column, its height, the lowest cell that completes four for one side, who began."""
HALVES = 2 * COLS
FEATURES = SEEN_LINES + HALF_COLUMNS * HEIGHTS
MOST_ACTIVE = LINES + COLS

FIRST_OTHER = HALF_COLUMNS
FIRST_TACTIC = 2 * HALF_COLUMNS
TACTICS = 16 * 27
"""See `_tactic`."""

_BOARD = np.uint64((1 << CELLS) - 1)
_BOTTOM = np.uint64((1 << COLS) - 1)
_COLUMN = np.uint64(sum(1 << COLS * row for row in range(ROWS)))
_TWO, _THREE, _UP = np.uint64(2), np.uint64(3), np.uint64(COLS)


@jit
def _completing(stones: np.uint64, occupied: np.uint64) -> np.uint64:
    """The empty cells with which `stones` make four."""
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
def _on_line(stones: np.uint64, start: np.uint64, step: np.uint64) -> int:
    """The stones of a line as four bits."""
    line = stones >> start
    found = (line & ONE) | ((line >> step) & ONE) << ONE
    return signed(
        found | ((line >> (_TWO * step)) & ONE) << _TWO | ((line >> (_THREE * step)) & ONE) << _THREE
    )


@jit
def _touched(stones: np.uint64, step: np.uint64) -> np.uint64:
    """The cells from which on one of four in a row is one of `stones`."""
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
    """What a stone makes and prevents.

    Whether it completes four; whether the other would complete four there; whether either would complete
    four on the cell above. Then, each at most two: the new cells that complete four; those that the mover
    could reach at once; and the cells that would complete four for the other if the stone were his.
    """
    above, occupied = stone << _UP, own | other | stone
    found = (1 if wins & stone else 0) + (2 if losses & stone else 0)
    found += (4 if wins & above else 0) + (8 if losses & above else 0)
    made = _completing(own | stone, occupied)
    reached = made & ((occupied << _UP) | _BOTTOM)
    spoilt = _completing(other | stone, occupied) & ~losses
    found = found * 3 + _at_most_two(made & ~wins)
    return (found * 3 + _at_most_two(reached)) * 3 + _at_most_two(spoilt)


@jit
def describe(
    packed_features: Words, history: int, actions: Actions, count: int, active: Numbers, rows: Numbers
) -> int:
    """Write the active features of a position and the rows of its legal actions (`games.spec`)."""
    own = packed_features[0] & _BOARD
    other = packed_features[1] & _BOARD & ~own
    began = 1 if packed_features[2 * history] != ZERO else 0
    occupied = own | other
    found = 0
    for direction in range(4):
        step = STEPS[direction]
        others = _touched(other, step)
        left = (_touched(own, step) ^ others) & STARTS[direction]
        while left:
            start = count_trailing_zeros(left)
            left &= left - ONE
            whose = signed((others >> start) & ONE)
            stones = _on_line(other if whose else own, start, step)
            active[found] = (LINE_AT[direction, start] * 15 + stones - 1) * 2 + whose
            found += 1

    wins, losses = _completing(own, occupied), _completing(other, occupied)
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
        stone = (ONE << (height * _UP + np.uint64(col))) & _BOARD
        rows[3 * i] = halves[2 * col]
        rows[3 * i + 1] = FIRST_OTHER + halves[2 * col + 1]
        rows[3 * i + 2] = FIRST_TACTIC + _tactic(own, other, wins, losses, stone)
    return found


def _shared() -> npt.NDArray[np.int32]:
    """[FEATURES, 3] of a column: what it has in common with those of the same own lowest cell, of the same
    lowest cell of the other, and of the same height."""
    shared = np.full((FEATURES, 3), -1, np.int32)
    halves = np.arange(HALF_COLUMNS * HEIGHTS)
    began, theirs, ours = halves % 2, halves // 2 % HEIGHTS, halves // 2 // HEIGHTS % HEIGHTS
    at = halves // 2 // HEIGHTS**2
    shared[SEEN_LINES:, 0] = (at * HEIGHTS + ours) * 2 + began
    shared[SEEN_LINES:, 1] = HALF_COLUMNS + (at * HEIGHTS + theirs) * 2 + began
    shared[SEEN_LINES:, 2] = 2 * HALF_COLUMNS + at * 2 + began
    return shared


SPARSE = SparseFeatures(
    name="connect_four-lines-1",
    features=FEATURES,
    most_active=MOST_ACTIVE,
    tables=3,
    action_rows=FIRST_TACTIC + TACTICS,
    describe=describe,
    shared=_shared(),
)
