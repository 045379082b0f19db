"""The nine words of a chess position, the squares that a piece attacks, and moves as indices into the policy.

Squares: a1 = 0, b1 = 1, ..., h8 = 63. Words 0-5 are bitboards of the pieces of both colours (pawns, knights,
bishops, rooks, queens, kings), words 6 and 7 of the men of White and of Black. Word 8 has the flags:

bit 0: side to move, 1 = Black. Bits 1-4: castling rights: White short, White long, Black short, Black long.
Bits 5-8: file + 1 of the pawn that can LEGALLY be taken en passant, 0 = none. Bits 16-31: half-moves since
the last capture or pawn move. Bits 32-47: half-moves since the start of the game. Bits 48-63: in chess960 the
files of the rooks that may still castle, White's from bit 48 on and Black's from bit 56 on; in chess 0.

Two positions are the same for the repetition rules if words 0-7 and the lowest nine bits of word 8 agree.

Attacks are computed from small tables with a few operations per ray. A ray towards higher squares is cut off
at its first blocker with `x ^ (x - 1)`, which has all bits up to the lowest set bit of x. A ray towards lower
squares is cut off with a shift by the index of the highest set bit. So the attacks of a sliding piece cost
four table reads and no branch.

Actions are AlphaZero's 8 x 8 x 73 (Silver et al. 2018, supplement, table S2): `action = plane * 64 +
from_square`, both as the side to move sees the board. Planes 0-55: the eight directions (N, NE, E, SE, S, SW,
W, NW) times distances 1-7; 56-63: knight jumps, clockwise; 64-72: promotions to knight, bishop, rook, each to
the left, straight on, to the right. A promotion to a queen is the plain move of planes 0-55. Castling is the
king's step of two squares.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from azselfplay.games.bits import ONE, ZERO, count_leading_zeros, count_trailing_zeros, reverse_bytes
from azselfplay.games.boards import actions_by_squares, walk
from azselfplay.games.jit import jit
from azselfplay.games.spec import State

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
CASTLING_ROOKS_SHIFT = np.uint64(48)

UPSIDE_DOWN = np.uint64(56)
"""`square ^ UPSIDE_DOWN` is the square as the other side sees it."""


@jit
def turned(board: np.uint64, side: np.uint64) -> np.uint64:
    """Return the board as `side` (0 White, 1 Black) sees it, with its own first rank at the bottom. A rank is
    a byte, so one instruction (bswap) flips the board."""
    return reverse_bytes(board) if side else board


@jit
def side_to_move(state: State) -> int:
    """Return 0 for White, 1 for Black."""
    return int(state[8] & ONE)


@jit
def start(state: State) -> None:
    """Write the usual start position."""
    state[0] = np.uint64(0x00FF00000000FF00)  # pawns
    state[1] = np.uint64(0x4200000000000042)  # knights
    state[2] = np.uint64(0x2400000000000024)  # bishops
    state[3] = np.uint64(0x8100000000000081)  # rooks
    state[4] = np.uint64(0x0800000000000008)  # queens, on the file d
    state[5] = np.uint64(0x1000000000000010)  # kings
    state[6] = np.uint64(0x000000000000FFFF)  # White's men
    state[7] = np.uint64(0xFFFF000000000000)  # Black's
    state[8] = RIGHTS_MASK  # all may castle; White moves; no other field is set


# ---- Attacks -------------------------------------------------------------------------------------


Words = npt.NDArray[np.uint64]

DIRECTIONS = ((1, 0), (1, 1), (0, 1), (-1, 1), (-1, 0), (-1, -1), (0, -1), (1, -1))
"""(ranks, files) of N, NE, E, SE, S, SW, W, NW: the order of AlphaZero's queen-like planes."""
KNIGHT_JUMPS = ((2, 1), (1, 2), (-1, 2), (-2, 1), (-2, -1), (-1, -2), (1, -2), (2, -1))

_THREE = np.uint64(3)
_TOP_BIT = np.uint64(63)


def _board(squares: list[int]) -> int:
    return sum(1 << square for square in squares)


def _leaper(jumps: tuple[tuple[int, int], ...]) -> Words:
    """Return `[square]`: the squares that a man with these jumps can reach from there."""
    boards = [_board([to for jump in jumps for to in walk(8, square, jump, 1)]) for square in range(64)]
    return np.array(boards, dtype=np.uint64)


def _crossing(direction: int) -> Words:
    """Return `[square]`: the whole line through the square in that direction and its opposite."""
    rays = RAYS.reshape(64, 8)
    return rays[:, direction] | rays[:, (direction + 4) % 8]


RAYS = np.array(
    [_board(walk(8, square, direction, 7)) for square in range(64) for direction in DIRECTIONS],
    dtype=np.uint64,
)
"""`[square * 8 + direction]`: the squares of that ray. In this order a square's rays share a cache line."""
BETWEEN, THROUGH = np.zeros((2, 4096), dtype=np.uint64)
"""`[a * 64 + b]`: the squares strictly between a and b; the whole line through both, if any."""
for _a in range(64):
    for _north, _east in DIRECTIONS:
        _met, _back = walk(8, _a, (_north, _east), 7), walk(8, _a, (-_north, -_east), 7)
        for _distance, _b in enumerate(_met):
            BETWEEN[_a * 64 + _b] = _board(_met[:_distance])
            THROUGH[_a * 64 + _b] = _board([_a, *_met, *_back])
KNIGHT_ATTACKS = _leaper(KNIGHT_JUMPS)
KING_ATTACKS = _leaper(DIRECTIONS)
FILE_THROUGH = _crossing(0)
RISING_THROUGH = _crossing(1)
FALLING_THROUGH = _crossing(7)

NOT_A_FILE = np.uint64(0xFEFEFEFEFEFEFEFE)
NOT_H_FILE = np.uint64(0x7F7F7F7F7F7F7F7F)


@jit
def _up(ray: np.uint64, occupied: np.uint64) -> np.uint64:
    """Return the part of a ray towards higher squares, up to and including the first man on it."""
    men = ray & occupied
    return ray & (men ^ (men - ONE))  # without men, 0 - 1 is all ones, and the ray stays whole


@jit
def _down(ray: np.uint64, occupied: np.uint64) -> np.uint64:
    """Return the part of a ray towards lower squares, up to and including the first man on it."""
    # 63 ^ clz is the index of the highest man. `| ONE` is for an empty ray, because clz of 0 is undefined.
    # Shifting all ones clears the squares below that man.
    return ray & (EVERYWHERE << (_TOP_BIT ^ count_leading_zeros((ray & occupied) | ONE)))


@jit
def rook_attacks(square: np.uint64, occupied: np.uint64) -> np.uint64:
    """Return the squares that a rook on `square` attacks, including the first man in each direction."""
    at = square << _THREE
    return (
        _up(RAYS[at], occupied)
        | _up(RAYS[at + np.uint64(2)], occupied)
        | _down(RAYS[at + np.uint64(4)], occupied)
        | _down(RAYS[at + np.uint64(6)], occupied)
    )


@jit
def bishop_attacks(square: np.uint64, occupied: np.uint64) -> np.uint64:
    """Return the squares that a bishop on `square` attacks, including the first man in each direction."""
    at = square << _THREE
    return (
        _up(RAYS[at + np.uint64(1)], occupied)
        | _down(RAYS[at + np.uint64(3)], occupied)
        | _down(RAYS[at + np.uint64(5)], occupied)
        | _up(RAYS[at + np.uint64(7)], occupied)
    )


@jit
def pawn_attacks_down(pawns: np.uint64) -> np.uint64:
    """Return the squares attacked by pawns that move towards rank 1 (the opponent's, as the mover sees
    them)."""
    return ((pawns & NOT_A_FILE) >> np.uint64(9)) | ((pawns & NOT_H_FILE) >> np.uint64(7))


@jit
def pawn_attacks_up(pawns: np.uint64) -> np.uint64:
    """Return the squares attacked by pawns that move towards rank 8. These are also the squares from which a
    pawn that moves towards rank 1 attacks one of `pawns`."""
    return ((pawns & NOT_A_FILE) << np.uint64(7)) | ((pawns & NOT_H_FILE) << np.uint64(9))


class Men(NamedTuple):
    """The men of one side as bitboards, by how they move."""

    pawns: np.uint64
    knights: np.uint64
    diagonal: np.uint64
    """Bishops and queens."""
    straight: np.uint64
    """Rooks and queens."""
    king: np.uint64


@jit
def seen_by(state: State, side: np.uint64) -> tuple[np.uint64, np.uint64, Men, Men]:
    """Return, as `side` sees the board: its squares, the opponent's, its men, the opponent's men."""
    own, foe = turned(state[np.uint64(6) + side], side), turned(state[np.uint64(7) - side], side)
    pawns, knights, kings = turned(state[0], side), turned(state[1], side), turned(state[5], side)
    queens = turned(state[4], side)
    diagonal, straight = turned(state[2], side) | queens, turned(state[3], side) | queens
    men = Men(pawns & own, knights & own, diagonal & own, straight & own, kings & own)
    return own, foe, men, Men(pawns & foe, knights & foe, diagonal & foe, straight & foe, kings & foe)


@jit
def all_attacks(foes: Men, occupied: np.uint64) -> np.uint64:
    """Return all squares attacked by the opponent's men, whose pawns move towards rank 1."""
    # Include the king: the other king may not step next to it.
    attacked = pawn_attacks_down(foes.pawns) | KING_ATTACKS[count_trailing_zeros(foes.king)]
    return attacked | piece_attacks(foes, occupied)


@jit
def piece_attacks(men: Men, occupied: np.uint64) -> np.uint64:
    """Return all squares attacked by these knights, bishops, rooks and queens."""
    attacked, knights, diagonal, straight = ZERO, men.knights, men.diagonal, men.straight
    while knights:
        attacked |= KNIGHT_ATTACKS[count_trailing_zeros(knights)]
        knights &= knights - ONE
    while diagonal:
        attacked |= bishop_attacks(count_trailing_zeros(diagonal), occupied)
        diagonal &= diagonal - ONE
    while straight:
        attacked |= rook_attacks(count_trailing_zeros(straight), occupied)
        straight &= straight - ONE
    return attacked


@jit
def attackers_of(square: np.uint64, foes: Men, occupied: np.uint64) -> np.uint64:
    """Return the opponent's men, except the king, that attack `square` (their pawns move towards rank 1)."""
    return (
        # A pawn that moves down attacks `square` if a pawn on `square` that moves up would attack it.
        (pawn_attacks_up(ONE << square) & foes.pawns)
        | (KNIGHT_ATTACKS[square] & foes.knights)
        | (bishop_attacks(square, occupied) & foes.diagonal)
        | (rook_attacks(square, occupied) & foes.straight)
    )


@jit
def en_passant_captors(file: np.uint64, men: Men, foes: Men, occupied: np.uint64) -> np.uint64:
    """Return the own pawns that may legally take the pawn that has just advanced two squares on `file`. All
    boards are as the side to move sees them.

    En passant is the only move that is made and then tested, because it removes two men from one rank, which
    pin detection does not see.
    """
    taken = ONE << (file + np.uint64(32))  # on the fifth rank
    target = taken << np.uint64(8)
    near = men.pawns & (((taken & NOT_A_FILE) >> ONE) | ((taken & NOT_H_FILE) << ONE))
    left = Men(foes.pawns & ~taken, foes.knights, foes.diagonal, foes.straight, foes.king)
    legal = ZERO
    while near:
        captor = near & (ZERO - near)  # the lowest bit: x & -x, in two's complement
        # The board after the capture, on which the king must not be attacked.
        after = occupied ^ captor ^ taken ^ target
        if not attackers_of(count_trailing_zeros(men.king), left, after):
            legal |= captor
        near ^= captor
    return legal


# ---- Actions -------------------------------------------------------------------------------------


PLANES = 73
ACTIONS = PLANES * 64
UNDERPROMOTION_PLANE = 64
UNDERPROMOTIONS = (KNIGHTS, BISHOPS, ROOKS)

NORTH_ONE, NORTH_TWO = 0 * 64, 1 * 64
"""Added to the from-square to get the action: pawn steps."""
NORTH_EAST_ONE, NORTH_WEST_ONE = 7 * 64, 49 * 64
"""Added to the from-square to get the action: pawn captures."""
EAST_TWO, WEST_TWO = 15 * 64, 43 * 64
"""Added to the king's square to get the action: castling short and long."""


STEPS = (
    *((ranks * far, files * far) for ranks, files in DIRECTIONS for far in range(1, 8)),
    *KNIGHT_JUMPS,
    *((1, files) for _ in UNDERPROMOTIONS for files in (-1, 0, 1)),
)
"""(ranks, files) of every plane."""
PLANE_SHIFT = np.array([(8 * ranks + files) % 64 for ranks, files in STEPS], dtype=np.uint64)
"""What each plane adds to the from-square, modulo 64."""
ACTION_OF = actions_by_squares(8, STEPS[:UNDERPROMOTION_PLANE])
"""`[from * 64 + to]`: the action of this move, if it is no underpromotion."""
