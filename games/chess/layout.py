"""The nine words of a chess position, and how a board is turned to the side to move.

Squares: a1 = 0, b1 = 1, ..., h8 = 63. Words 0-5 hold the pieces of both colours (pawns, knights, bishops,
rooks, queens, kings), words 6 and 7 the men of White and of Black, word 8 the flags:

bit 0: side to move, 1 = Black. Bits 1-4: castling rights: White short, White long, Black short, Black long.
Bits 5-8: file + 1 of the pawn that can LEGALLY be taken en passant, 0 = none. Bits 16-31: half-moves since
the last capture or pawn move. Bits 32-47: half-moves since the start of the game.

Two positions are the same for the repetition rules when words 0-7 and the lowest nine bits agree.
"""

from __future__ import annotations

import numpy as np

from games.bits import ONE, reverse_bytes
from games.jit import jit
from games.spec import State

STATE_WORDS = 9
PAWNS, KNIGHTS, BISHOPS, ROOKS, QUEENS, KINGS, WHITE, BLACK, FLAGS = range(STATE_WORDS)

EVERYWHERE = np.uint64(0xFFFFFFFFFFFFFFFF)
RIGHTS_MASK = np.uint64(0b11110)
EN_PASSANT_SHIFT = np.uint64(5)
EN_PASSANT_MASK = np.uint64(0b1111)
SAME_POSITION_MASK = np.uint64(0x1FF)
CLOCK_SHIFT = np.uint64(16)
CLOCK_MASK = np.uint64(0xFFFF)
PLIES_SHIFT = np.uint64(32)
PLIES_MASK = np.uint64(0xFFFF)

UPSIDE_DOWN = np.uint64(56)
"""`square ^ UPSIDE_DOWN` is the square as the other side sees it."""


@jit
def turned(board: np.uint64, side: np.uint64) -> np.uint64:
    """The board as `side` (0 White, 1 Black) sees it, its own first rank at the bottom. A rank is a byte, so
    one instruction (bswap) turns the board."""
    return reverse_bytes(board) if side else board


@jit
def side_to_move(state: State) -> int:
    """0 for White, 1 for Black."""
    return int(state[8] & ONE)


@jit
def start(state: State) -> None:
    """Write the usual start position."""
    state[0] = np.uint64(0x00FF00000000FF00)
    state[1] = np.uint64(0x4200000000000042)
    state[2] = np.uint64(0x2400000000000024)
    state[3] = np.uint64(0x8100000000000081)
    state[4] = np.uint64(0x0800000000000008)
    state[5] = np.uint64(0x1000000000000010)
    state[6] = np.uint64(0x000000000000FFFF)
    state[7] = np.uint64(0xFFFF000000000000)
    state[8] = RIGHTS_MASK
