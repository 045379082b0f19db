"""What a sparse network reads of tic-tac-toe: stones on cells, and lines with the pattern of their stones.

An action has two rows: its cell, and what the stone does on the lines through it.
"""

from __future__ import annotations

import numpy as np

from games.bits import ONE, ZERO, count_ones, count_trailing_zeros
from games.jit import jit, signed
from games.spec import SparseFeatures
from games.stubs import Actions, Numbers, Words
from games.windows import windows_of

CELLS = 9
LINE_BOARDS = windows_of(3, 3, 3)
LINES = len(LINE_BOARDS)
PATTERNS = 27
"""A line's cells in base 3, the lowest cell first: 0 empty, 1 an own stone, 2 the other's."""
FIRST_LINE = 2 * CELLS
FEATURES = FIRST_LINE + LINES * PATTERNS
MOST_ACTIVE = CELLS + LINES

FIRST_TACTIC = CELLS
TACTICS = 2 * 2 * 3
"""Whether the stone wins; whether it stops the other from winning there; lines in which it threatens, at
most 2."""

_BOARD = np.uint64((1 << CELLS) - 1)
_TWO = np.uint64(2)


@jit
def _pattern(own: np.uint64, other: np.uint64, line: np.uint64) -> int:
    pattern, worth = 0, 1
    while line:
        cell = count_trailing_zeros(line)
        line &= line - ONE
        pattern += worth * (signed((own >> cell) & ONE) + 2 * signed((other >> cell) & ONE))
        worth *= 3
    return pattern


@jit
def _tactic(own: np.uint64, other: np.uint64, stone: np.uint64) -> int:
    wins = stops = threats = 0
    for line in LINE_BOARDS:
        if line & stone:
            mine, his = count_ones(own & line), count_ones(other & line)
            if mine == _TWO:
                wins = 1
            elif his == _TWO:
                stops = 1
            elif mine == ONE and his == ZERO:
                threats = min(threats + 1, 2)
    return (wins * 2 + stops) * 3 + threats


@jit
def describe(
    packed_features: Words, history: int, actions: Actions, count: int, active: Numbers, rows: Numbers
) -> int:
    """Write the active features of a position and the rows of its legal actions (`games.spec`)."""
    own = packed_features[0] & _BOARD
    other = packed_features[1] & _BOARD & ~own
    found = 0
    for cell in range(CELLS):
        bit = np.uint64(cell)
        if ((own | other) >> bit) & ONE:
            active[found] = 2 * cell + signed((other >> bit) & ONE)
            found += 1
    for line in range(LINES):
        active[found] = FIRST_LINE + line * PATTERNS + _pattern(own, other, LINE_BOARDS[line])
        found += 1
    for i in range(count):
        cell = signed(actions[i])
        rows[2 * i] = cell
        rows[2 * i + 1] = FIRST_TACTIC + _tactic(own, other, ONE << np.uint64(cell))
    return found


SPARSE = SparseFeatures(
    name="tic_tac_toe-lines-1",
    features=FEATURES,
    most_active=MOST_ACTIVE,
    tables=2,
    action_rows=FIRST_TACTIC + TACTICS,
    describe=describe,
)
