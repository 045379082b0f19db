"""Bitboards of shogi's 81 squares in two words, and the layout of a position in eleven words.

Squares run down the files: 1a = 0, 1b = 1, ..., 1i = 8, 2a = 9, ..., 9i = 80. The first word of a bitboard
holds files 1 to 7 (63 bits), the second files 8 and 9 (18 bits), so no file is split. The side to move sees
its own first rank as rank i: forward is one bit down, a file to the right is nine bits down.

Every square has a code of five bits. Words 0-9 of a position hold these bits as five bitboards: word 2 b + w
is word w of the bitboard of bit b. So a position takes 88 bytes, and a set of pieces (such as all silvers)
takes a few operations on whole words.

code      0 empty, 1-8 pawn, lance, knight, silver, gold, bishop, rook, king; 8 more for a promoted piece
          (9-12, 14, 15); 16 more for a piece of White
word 10   bit 0 the side to move, 1 = White; bits 1-21 the hand of Black, 22-42 that of White; from bit 43
          on the plies since the start of the game

A hand has the counts of pawns (5 bits), lances, knights, silvers, golds (3 bits each), bishops and rooks (2
bits each). Two positions are the same for the repetition rules if words 0-9 and the lowest 43 bits of word 10
agree. Black (sente) is the first player.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from azselfplay.games.bits import ONE, ZERO, count_trailing_zeros, reverse_bits
from azselfplay.games.jit import jit
from azselfplay.games.spec import State

Board = tuple[np.uint64, np.uint64]


# ---- Sets of squares -----------------------------------------------------------------------------


FILES, RANKS, SQUARES = 9, 9, 81
IN_FIRST_WORD = np.uint64(63)
LAST_SQUARE = np.uint64(80)
FIRST_WORD = np.uint64((1 << 63) - 1)


def board_of(squares: list[int]) -> tuple[int, int]:
    """Return the two words of a set of squares, as Python integers."""
    bits = sum(1 << square for square in set(squares))
    return bits & int(FIRST_WORD), bits >> int(IN_FIRST_WORD)


def _rows(*ranks: int) -> Board:
    low, high = board_of([square for square in range(SQUARES) if square % RANKS in ranks])
    return np.uint64(low), np.uint64(high)


EMPTY: Board = (ZERO, ZERO)
EVERYWHERE = _rows(*range(RANKS))
ZONE = _rows(0, 1, 2)
"""The promotion zone of the side to move."""
NOT_LAST_RANK = _rows(*range(1, RANKS))
"""Squares on which a pawn or a lance of the side to move still has a move."""
NOT_LAST_TWO_RANKS = _rows(*range(2, RANKS))
"""Squares on which a knight of the side to move still has a move."""
OWN_LAST_RANK = _rows(8)


@jit
def single(square: np.uint64) -> Board:
    """Return the set of one square."""
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
    """Return whether the set is not empty."""
    return board[0] | board[1] != ZERO


@jit
def union(first: Board, second: Board) -> Board:
    return first[0] | second[0], first[1] | second[1]


@jit
def overlap(first: Board, second: Board) -> Board:
    return first[0] & second[0], first[1] & second[1]


@jit
def without(first: Board, second: Board) -> Board:
    """Return the squares of `first` that are not in `second`."""
    return first[0] & ~second[0], first[1] & ~second[1]


@jit
def lowest(board: Board) -> np.uint64:
    """Return the lowest square of a set, which must not be empty."""
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
    """Return the board as the other side sees it: square s becomes 80 - s."""
    # Reversing 64 bits moves bit s of word 0 to 63 - s, which is 17 too low, and bit s - 63 of word 1 to 126
    # - s, which is 46 too high.
    files = reverse_bits(board[0])
    low = (files << np.uint64(17)) & FIRST_WORD
    return low | (reverse_bits(board[1]) >> np.uint64(46)), files >> np.uint64(46)


# ---- The eleven words ----------------------------------------------------------------------------


STATE_WORDS = 11
CODE_BITS = 5
PAWN, LANCE, KNIGHT, SILVER, GOLD, BISHOP, ROOK, KING = range(1, 9)
PROMOTED, WHITES = 8, 16
"""Added to a piece's code."""
CODE_LETTERS = (".", "P", "L", "N", "S", "G", "B", "R", "K", "+P", "+L", "+N", "+S", "", "+B", "+R")
"""SFEN letter of each code without its colour."""
IN_ALL = {PAWN: 18, LANCE: 4, KNIGHT: 4, SILVER: 4, GOLD: 4, BISHOP: 2, ROOK: 2}
"""Number of pieces of each kind in the game, which is also the most that a hand can hold."""

HAND_PLACES = {
    PAWN: (0, 5),
    LANCE: (5, 3),
    KNIGHT: (8, 3),
    SILVER: (11, 3),
    GOLD: (14, 3),
    BISHOP: (17, 2),
    ROOK: (19, 2),
}
"""(lowest bit, bits) of each kind in a hand."""
HAND_SHIFT = np.array([0, *(shift for shift, _ in HAND_PLACES.values())], dtype=np.uint64)
HAND_FIELD = np.array([0, *((1 << bits) - 1 for _, bits in HAND_PLACES.values())], dtype=np.uint64)
"""Field mask by kind; index 0 is unused."""
HAND_BITS = np.uint64(21)
HAND_MASK = np.uint64((1 << 21) - 1)
SAME_POSITION_MASK = np.uint64((1 << 43) - 1)
PLIES_SHIFT = np.uint64(43)

COLOUR, REST = 8, 10
"""Word numbers: the first of the two words of White's squares, and the word of hands and plies."""


class Men(NamedTuple):
    """The squares of one side's pieces, by how they move."""

    pawns: Board
    lances: Board
    knights: Board
    silvers: Board
    golds: Board
    """Also promoted pawns, lances, knights and silvers, which move like golds."""
    diagonal: Board
    """Bishops and horses."""
    straight: Board
    """Rooks and dragons."""
    horses: Board
    dragons: Board
    king: Board


class Kinds(NamedTuple):
    """Bitboards of the four code bits other than the colour."""

    low: Board
    mid: Board
    high: Board
    promoted: Board


@jit
def side_to_move(state: State) -> int:
    """Return 0 for Black, 1 for White."""
    return int(state[10] & ONE)


@jit
def hand_of(state: State, side: np.uint64) -> np.uint64:
    """Return the 21 bits of a hand."""
    return (state[10] >> (ONE + side * HAND_BITS)) & HAND_MASK


@jit
def in_hand(hand: np.uint64, kind: int) -> np.uint64:
    """Return the number of pieces of a kind (1 to 7) in a hand."""
    return (hand >> HAND_SHIFT[kind]) & HAND_FIELD[kind]


@jit
def turned_square(square: np.uint64, side: np.uint64) -> np.uint64:
    """Convert a square to the view of `side`, or back."""
    return LAST_SQUARE - square if side else square


@jit
def _seen(state: State, bit: int, side: np.uint64) -> Board:
    board = (state[2 * bit], state[2 * bit + 1])
    return rotated(board) if side else board


@jit
def kinds_seen(state: State, side: np.uint64) -> Kinds:
    """Return the kinds of pieces as `side` sees the board."""
    return Kinds(_seen(state, 0, side), _seen(state, 1, side), _seen(state, 2, side), _seen(state, 3, side))


@jit
def occupied_of(kinds: Kinds) -> Board:
    return (
        kinds.low[0] | kinds.mid[0] | kinds.high[0] | kinds.promoted[0],
        kinds.low[1] | kinds.mid[1] | kinds.high[1] | kinds.promoted[1],
    )


@jit
def sides_seen(state: State, occupied: Board, side: np.uint64) -> tuple[Board, Board]:
    """Return the squares of `side` and those of the other side, as `side` sees them."""
    white = _seen(state, 4, side)
    # Only White's squares are stored: all other occupied squares are Black's.
    black = without(occupied, white)
    return (white, black) if side else (black, white)


@jit
def _sorted(
    low: np.uint64, mid: np.uint64, high: np.uint64, promoted: np.uint64, who: np.uint64
) -> tuple[np.uint64, ...]:
    """Return one word of each board of `Men`."""
    plain, better = who & ~promoted, who & promoted
    pawn, lance, knight = low & ~mid & ~high, ~low & mid & ~high, low & mid & ~high
    silver, gold, bishop, rook = ~low & ~mid & high, low & ~mid & high, ~low & mid & high, low & mid & high
    return (
        pawn & plain,
        lance & plain,
        knight & plain,
        silver & plain,
        # Promoted pawns, lances, knights and silvers move like golds.
        (gold & plain) | ((pawn | lance | knight | silver) & better),
        bishop & who,
        rook & who,
        bishop & better,
        rook & better,
        # A king has code 8: the promotion bit alone.
        ~(low | mid | high) & better,
    )


@jit
def men_of(kinds: Kinds, who: Board) -> Men:
    """Return the pieces on the squares `who`, grouped by how they move."""
    a = _sorted(kinds.low[0], kinds.mid[0], kinds.high[0], kinds.promoted[0], who[0])
    b = _sorted(kinds.low[1], kinds.mid[1], kinds.high[1], kinds.promoted[1], who[1])
    return Men(
        (a[0], b[0]),
        (a[1], b[1]),
        (a[2], b[2]),
        (a[3], b[3]),
        (a[4], b[4]),
        (a[5], b[5]),
        (a[6], b[6]),
        (a[7], b[7]),
        (a[8], b[8]),
        (a[9], b[9]),
    )


@jit
def code_at(state: State, square: np.uint64) -> np.uint64:
    """Return the code of a square."""
    word, at = (0, square) if square < IN_FIRST_WORD else (1, square - IN_FIRST_WORD)
    code = ZERO
    for bit in range(CODE_BITS):
        code |= ((state[2 * bit + word] >> at) & ONE) << np.uint64(bit)
    return code


def write_codes(state: State, codes: list[int]) -> None:
    """Write the board of `state`. codes: [81]"""
    for bit in range(CODE_BITS):
        plane = sum((code >> bit & 1) << square for square, code in enumerate(codes))
        state[2 * bit], state[2 * bit + 1] = plane & (1 << 63) - 1, plane >> 63


def codes_of(state: State) -> list[int]:
    """Return [81] the code of each square."""
    planes = [int(state[2 * bit]) | int(state[2 * bit + 1]) << 63 for bit in range(CODE_BITS)]
    return [sum((plane >> square & 1) << bit for bit, plane in enumerate(planes)) for square in range(81)]


def _start() -> npt.NDArray[np.uint64]:
    """Return the usual start position."""
    behind = (LANCE, KNIGHT, SILVER, GOLD, KING, GOLD, SILVER, KNIGHT, LANCE)
    codes = [0] * 81
    for file, piece in enumerate(behind):
        for rank, code in ((8, piece), (6, PAWN), (2, PAWN + WHITES), (0, piece + WHITES)):
            codes[9 * file + rank] = code
    # Rook on 2h and bishop on 8h; White's are opposite.
    codes[9 * 1 + 7], codes[9 * 7 + 7] = ROOK, BISHOP
    codes[9 * 7 + 1], codes[9 * 1 + 1] = ROOK + WHITES, BISHOP + WHITES
    state = np.zeros(STATE_WORDS, dtype=np.uint64)
    write_codes(state, codes)
    return state


START = _start()


@jit
def start(state: State) -> None:
    """Write the usual start position."""
    for word in range(STATE_WORDS):
        state[word] = START[word]
