"""Sets of the 81 squares in two words, for jitted code.

Squares run down the files: 1a = 0, 1b = 1, ..., 1i = 8, 2a = 9, ..., 9i = 80. Word 0 holds files 1 to 7 (63
bits), word 1 files 8 and 9 (18 bits), so no file lies in both. The side to move sees its own first rank as
rank i: forward is one bit down, a file to the right is nine bits down.
"""

from __future__ import annotations

import numpy as np

from games.bits import ONE, ZERO, count_trailing_zeros, reverse_bits
from games.jit import jit

Board = tuple[np.uint64, np.uint64]

FILES, RANKS, SQUARES = 9, 9, 81
IN_FIRST_WORD = np.uint64(63)
LAST_SQUARE = np.uint64(80)
FIRST_WORD = np.uint64((1 << 63) - 1)


def board_of(squares: list[int]) -> tuple[int, int]:
    """The two words of a set of squares, as Python integers."""
    bits = sum(1 << square for square in set(squares))
    return bits & int(FIRST_WORD), bits >> int(IN_FIRST_WORD)


def _rows(*ranks: int) -> Board:
    low, high = board_of([square for square in range(SQUARES) if square % RANKS in ranks])
    return np.uint64(low), np.uint64(high)


EMPTY: Board = (ZERO, ZERO)
EVERYWHERE = _rows(*range(RANKS))
ZONE = _rows(0, 1, 2)
"""Where the side to move promotes."""
NOT_LAST_RANK = _rows(*range(1, RANKS))
"""Where a pawn or a lance of the side to move still has a move."""
NOT_LAST_TWO_RANKS = _rows(*range(2, RANKS))
"""Where a knight of the side to move still has a move."""
OWN_LAST_RANK = _rows(8)


@jit
def single(square: np.uint64) -> Board:
    """The set of one square."""
    if square < IN_FIRST_WORD:
        return ONE << square, ZERO
    return ZERO, ONE << (square - IN_FIRST_WORD)


@jit
def contains(board: Board, square: np.uint64) -> bool:
    if square < IN_FIRST_WORD:
        return (board[0] >> square) & ONE != ZERO
    return (board[1] >> (square - IN_FIRST_WORD)) & ONE != ZERO


@jit
def some(board: Board) -> bool:
    """Whether the set is not empty."""
    return board[0] | board[1] != ZERO


@jit
def union(first: Board, second: Board) -> Board:
    return first[0] | second[0], first[1] | second[1]


@jit
def overlap(first: Board, second: Board) -> Board:
    return first[0] & second[0], first[1] & second[1]


@jit
def without(first: Board, second: Board) -> Board:
    """The squares of `first` that are not in `second`."""
    return first[0] & ~second[0], first[1] & ~second[1]


@jit
def lowest(board: Board) -> np.uint64:
    """Its lowest square; there must be one."""
    if board[0]:
        return count_trailing_zeros(board[0])
    return IN_FIRST_WORD + count_trailing_zeros(board[1])


@jit
def without_lowest(board: Board) -> Board:
    if board[0]:
        return board[0] & (board[0] - ONE), board[1]
    return ZERO, board[1] & (board[1] - ONE)


@jit
def rotated(board: Board) -> Board:
    """The board as the other side sees it: square s becomes 80 - s."""
    # Reversing 64 bits takes bit s of word 0 to 63 - s, 17 less than 80 - s, and bit s - 63 of word 1 to 126
    # - s, 46 more than it.
    files = reverse_bits(board[0])
    low = (files << np.uint64(17)) & FIRST_WORD
    return low | (reverse_bits(board[1]) >> np.uint64(46)), files >> np.uint64(46)
