"""Exact solver for Connect Four. Given enough time, it finds the result of any position and the columns that
keep it.

A position of 8 stones takes about a second, one of 14 some milliseconds; from 20 stones on, the solver does
thousands per second. The search is alpha-beta (negamax) with a transposition table. Bitboards have seven
columns of seven bits, of which the uppermost is always empty: `own` has the stones of the side to move,
`mask` all stones. A score is the number of stones the winner has left when it wins, including the winning
one. After John Tromp and Pascal Pons.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from azselfplay.games.bits import ONE, ZERO, count_ones
from azselfplay.games.connect_four import CELLS, COLS, GAME, ROWS
from azselfplay.games.jit import jit
from azselfplay.games.spec import State

TABLE_BITS = 22
"""The transposition table has 2 ** 22 entries (32 MiB), which is enough from 8 stones on."""


class Solver:
    """Solves positions. The transposition table is kept from one call to the next."""

    def __init__(self, table_bits: int = TABLE_BITS) -> None:
        self._table = np.zeros(1 << table_bits, np.uint64)
        # A row for each number of stones: a position and its successors never use the same row.
        self._scratch = np.zeros((CELLS, 2, COLS), np.uint64)

    def value(self, state: State) -> int:
        """Return the result with best play for the side to move: +1, 0 or -1. The game must not be over."""
        own, mask = board_of(state)
        return int(solve(own, mask, -1, 1, self._table, self._scratch))

    def verdict(self, state: State) -> tuple[int, list[int]]:
        """Return the result for the side to move, and the columns that keep it, in the order of the rules."""
        legal, value = GAME.legal_list(state), self.value(state)
        # A lost position cannot get worse: every column keeps the result.
        if value < 0:
            return value, legal
        keeps = []
        for action in legal:
            child = GAME.after(state, action)
            ended = GAME.end_value(child)
            if ended is None:
                own, mask = board_of(child)
                # Ask only whether the result is kept, which is faster than computing the score.
                score = solve(own, mask, -value, -value + 1, self._table, self._scratch)
                found = score <= -value
            else:
                found = -ended >= value
            if found:
                keeps.append(action)
        return value, keeps


def board_of(state: State) -> tuple[np.uint64, np.uint64]:
    """Return the state in the solver's form, (own, mask): columns of six cells with an empty one above."""
    own, other = int(state[0]), int(state[1])
    return np.uint64(_by_columns(own)), np.uint64(_by_columns(own | other))


def _by_columns(stones: int) -> int:
    cells = (cell for cell in range(CELLS) if stones >> cell & 1)
    return sum(1 << (ROWS + 1) * (cell % COLS) + cell // COLS for cell in cells)


# ---- The search, jitted --------------------------------------------------------------------------


Words = npt.NDArray[np.uint64]

LOWEST = -18
"""No score is lower, because a win takes at least four of the winner's 21 stones."""
_SCORES = 1 - 2 * LOWEST

_BOTTOM = np.uint64(sum(1 << 7 * col for col in range(COLS)))
_BOARD = np.uint64(int(_BOTTOM) * 0b111111)
_COLUMN = np.uint64(0b111111)
_SEVEN, _EIGHT = np.uint64(7), np.uint64(8)
_STEPS = np.array([7, 6, 8], dtype=np.uint64)
"""Sideways and both diagonals."""
_CENTRE_FIRST = np.array([3, 2, 4, 1, 5, 0, 6], dtype=np.uint64)
_HASH = np.uint64(0x9E3779B97F4A7C15)
_CODE = np.uint64(0xFF)


@jit
def winning_cells(stones: np.uint64, mask: np.uint64) -> np.uint64:
    """Return the empty cells, playable now or later, on which one more stone would complete four of
    `stones`."""
    two, three = ONE + ONE, ONE + ONE + ONE
    # Upwards: three in a column with the free cell above. A column has 7 bits, so nothing wraps.
    found = (stones << ONE) & (stones << two) & (stones << three)
    for step in _STEPS:
        after = (stones << step) & (stones << (step + step))
        before = (stones >> step) & (stones >> (step + step))
        found |= after & ((stones << (step * three)) | (stones >> step))
        found |= before & ((stones >> (step * three)) | (stones << step))
    return found & (_BOARD ^ mask)


@jit
def playable_cells(mask: np.uint64) -> np.uint64:
    """Return the lowest empty cell of every column that is not full."""
    # Adding one at the bottom of a column carries through its stones to the first empty cell.
    return (mask + _BOTTOM) & _BOARD


@jit
def _moves_that_survive(own: np.uint64, mask: np.uint64) -> np.uint64:
    """Return the playable cells after which the other side has no immediate win. The side to move must have
    no immediate win itself."""
    threats = winning_cells(own ^ mask, mask)
    cells = playable_cells(mask)
    forced = cells & threats
    if forced:
        if forced & (forced - ONE):  # two threats: one stone can block only one
            return ZERO
        cells = forced
    return cells & ~(threats >> ONE)  # a stone below a threat would make it playable


@jit
def _order(own: np.uint64, mask: np.uint64, cells: np.uint64, moves: Words, marks: Words) -> int:
    """Write the cells to `moves`, ordered by the number of threats they make, largest first, then by nearness
    to the centre. Returns their number.

    moves, marks: uint64[COLS], the cells and the number of threats that each makes.
    """
    count = 0
    for col in _CENTRE_FIRST:
        cell = cells & (_COLUMN << (col * _SEVEN))
        if not cell:
            continue
        mark = count_ones(winning_cells(own | cell, mask | cell))
        at = count
        # Insertion sort: there are at most seven.
        while at > 0 and marks[at - 1] < mark:
            moves[at], marks[at] = moves[at - 1], marks[at - 1]
            at -= 1
        moves[at], marks[at] = cell, mark
        count += 1
    return count


@jit
def key_of(own: np.uint64, mask: np.uint64) -> np.uint64:
    """Return a key that is unique to the position and never 0, because 0 marks an empty entry of the
    table."""
    return own + mask + ONE


@jit
def negamax(
    own: np.uint64,
    mask: np.uint64,
    alpha: int,
    beta: int,
    table: Words,
    scratch: Words,
) -> int:
    """Return the score if it lies between `alpha` and `beta`, else a bound on the score outside that window.

    The side to move must have no immediate win.
    """
    stones: Any = np.int64(count_ones(mask))
    cells = _moves_that_survive(own, mask)
    if not cells:
        return -((CELLS - stones) // 2)  # the other side wins with its next stone
    if stones >= CELLS - 2:
        return 0  # two cells are left, and neither side wins on them
    # Nobody wins with the next two stones, which bounds the score on both sides.
    alpha = max(alpha, -((CELLS - 2 - stones) // 2))
    beta = min(beta, (CELLS - 1 - stones) // 2)
    if alpha >= beta:
        return alpha
    key = key_of(own, mask)
    # The slot in a table whose size is a power of two, by Fibonacci hashing (Knuth).
    slot = key * _HASH >> np.uint64(20) & np.uint64(len(table) - 1)
    entry = table[slot]
    # The entry holds the whole key, so positions cannot be confused.
    if entry >> _EIGHT == key:
        bound: Any = np.int64(entry & _CODE)
        if bound > _SCORES:  # a lower bound
            alpha = max(alpha, bound - _SCORES - 1 + LOWEST)
        else:
            beta = min(beta, bound - 1 + LOWEST)
        if alpha >= beta:
            return alpha if bound > _SCORES else beta
    moves, marks = scratch[stones, 0], scratch[stones, 1]
    # Best moves first: a good bound cuts off most of the rest.
    for at in range(_order(own, mask, cells, moves, marks)):
        score = -negamax(own ^ mask, mask | moves[at], -beta, -alpha, table, scratch)
        if score >= beta:
            table[slot] = (key << _EIGHT) | np.uint64(score - LOWEST + 1 + _SCORES)
            return score
        alpha = max(alpha, score)
    table[slot] = (key << _EIGHT) | np.uint64(alpha - LOWEST + 1)
    return alpha


@jit
def solve(
    own: np.uint64,
    mask: np.uint64,
    low: int,
    high: int,
    table: Words,
    scratch: Words,
) -> int:
    """Return the score of a game that continues, clipped to [low, high] (-1 and 1: only the result).

    Uses null windows that halve the remaining range.
    """
    stones: Any = np.int64(count_ones(mask))
    if playable_cells(mask) & winning_cells(own, mask):
        return min(high, (CELLS + 1 - stones) // 2)
    at_least, at_most = max(low, -((CELLS - stones) // 2)), min(high, (CELLS - 1 - stones) // 2)
    while at_least < at_most:
        middle = (at_least + at_most) // 2
        if middle <= 0:
            middle = min(middle, -(-at_least // 2))
        score = negamax(own, mask, middle, middle + 1, table, scratch)
        if score <= middle:
            at_most = score
        else:
            at_least = score
    return max(low, min(high, at_least))
