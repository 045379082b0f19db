"""The squares that a piece attacks, and the squares on a line: small tables and a few operations per ray.

A ray towards higher squares is cut at its first blocker by `x ^ (x - 1)`, which keeps all bits up to the
lowest set one. In the other direction it is cut by a shift by the index of the highest set bit. So a sliding
piece costs four table reads and no branch.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from games.bits import ONE, ZERO, count_leading_zeros, count_trailing_zeros
from games.chess.layout import EVERYWHERE
from games.jit import jit

Words = npt.NDArray[np.uint64]

DIRECTIONS = ((0, 1), (1, 1), (1, 0), (1, -1), (0, -1), (-1, -1), (-1, 0), (-1, 1))
"""(files, ranks) of N, NE, E, SE, S, SW, W, NW: the order of AlphaZero's queen-like planes."""
KNIGHT_JUMPS = ((1, 2), (2, 1), (2, -1), (1, -2), (-1, -2), (-2, -1), (-2, 1), (-1, 2))

_THREE = np.uint64(3)
_TOP_BIT = np.uint64(63)


def _walk(square: int, files: int, ranks: int, steps: int) -> list[int]:
    """Squares met when walking from `square`, at most `steps` of them, up to the edge."""
    file, rank, met = square % 8, square // 8, []
    for _ in range(steps):
        file, rank = file + files, rank + ranks
        if not (0 <= file < 8 and 0 <= rank < 8):
            break
        met.append(8 * rank + file)
    return met


def _board(squares: list[int]) -> int:
    return sum(1 << square for square in squares)


def _leaper(jumps: tuple[tuple[int, int], ...]) -> Words:
    """`[square]`: the squares that a man with these jumps can reach from there."""
    boards = [_board([to for jump in jumps for to in _walk(square, *jump, 1)]) for square in range(64)]
    return np.array(boards, dtype=np.uint64)


def _ray_table() -> Words:
    """`[square * 8 + direction]`: the squares of that ray, so that a square's rays share a cache line."""
    rays = [_board(_walk(square, *direction, 7)) for square in range(64) for direction in DIRECTIONS]
    return np.array(rays, dtype=np.uint64)


def _line_tables() -> tuple[Words, Words]:
    """`[a * 64 + b]`: the squares strictly between a and b; the whole line through both, if any."""
    between, through = np.zeros(4096, dtype=np.uint64), np.zeros(4096, dtype=np.uint64)
    for square in range(64):
        for number, direction in enumerate(DIRECTIONS):
            met = _walk(square, *direction, 7)
            back = _walk(square, *DIRECTIONS[(number + 4) % 8], 7)
            for distance, other in enumerate(met):
                between[square * 64 + other] = _board(met[:distance])
                through[square * 64 + other] = _board([square, *met, *back])
    return between, through


def _crossing(direction: int) -> Words:
    """`[square]`: the whole line in that direction (and its opposite) through it."""
    rays = RAYS.reshape(64, 8)
    return rays[:, direction] | rays[:, (direction + 4) % 8]


RAYS = _ray_table()
BETWEEN, THROUGH = _line_tables()
KNIGHT_ATTACKS = _leaper(KNIGHT_JUMPS)
KING_ATTACKS = _leaper(DIRECTIONS)
FILE_THROUGH = _crossing(0)
RISING_THROUGH = _crossing(1)
FALLING_THROUGH = _crossing(7)

NOT_A_FILE = np.uint64(0xFEFEFEFEFEFEFEFE)
NOT_H_FILE = np.uint64(0x7F7F7F7F7F7F7F7F)


@jit
def _up(ray: np.uint64, occupied: np.uint64) -> np.uint64:
    """The part of a ray towards higher squares up to and including the first man on it."""
    men = ray & occupied
    return ray & (men ^ (men - ONE))  # without men, 0 - 1 is all ones, and the ray stays whole


@jit
def _down(ray: np.uint64, occupied: np.uint64) -> np.uint64:
    """The part of a ray towards lower squares up to and including the first man on it."""
    # 63 ^ clz is the index of the highest man; `| ONE` gives an empty ray one man, because clz of 0 is
    # undefined. The shift of all ones clears what lies below it.
    return ray & (EVERYWHERE << (_TOP_BIT ^ count_leading_zeros((ray & occupied) | ONE)))


@jit
def rook_attacks(square: np.uint64, occupied: np.uint64) -> np.uint64:
    """Squares that a rook on `square` attacks, the first man in each direction included."""
    at = square << _THREE
    return (
        _up(RAYS[at], occupied)
        | _up(RAYS[at + np.uint64(2)], occupied)
        | _down(RAYS[at + np.uint64(4)], occupied)
        | _down(RAYS[at + np.uint64(6)], occupied)
    )


@jit
def bishop_attacks(square: np.uint64, occupied: np.uint64) -> np.uint64:
    """Squares that a bishop on `square` attacks, the first man in each direction included."""
    at = square << _THREE
    return (
        _up(RAYS[at + np.uint64(1)], occupied)
        | _down(RAYS[at + np.uint64(3)], occupied)
        | _down(RAYS[at + np.uint64(5)], occupied)
        | _up(RAYS[at + np.uint64(7)], occupied)
    )


@jit
def pawn_attacks_down(pawns: np.uint64) -> np.uint64:
    """Squares attacked by pawns that move towards rank 1 (the opponent's, in the mover's view)."""
    return ((pawns & NOT_A_FILE) >> np.uint64(9)) | ((pawns & NOT_H_FILE) >> np.uint64(7))


@jit
def pawn_attackers_above(square: np.uint64) -> np.uint64:
    """Squares from which a pawn that moves towards rank 1 attacks `square`."""
    bit = ONE << square
    return ((bit & NOT_A_FILE) << np.uint64(7)) | ((bit & NOT_H_FILE) << np.uint64(9))


@jit
def all_attacks(
    pawns: np.uint64,
    knights: np.uint64,
    diagonal: np.uint64,
    straight: np.uint64,
    king: np.uint64,
    occupied: np.uint64,
) -> np.uint64:
    """All squares attacked by the opponent's men (whose pawns move towards rank 1).

    `diagonal` are their bishops and queens, `straight` their rooks and queens, `king` a one-bit board.
    """
    attacked = pawn_attacks_down(pawns) | KING_ATTACKS[count_trailing_zeros(king)]
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
def attackers_of(
    square: np.uint64,
    pawns: np.uint64,
    knights: np.uint64,
    diagonal: np.uint64,
    straight: np.uint64,
    occupied: np.uint64,
) -> np.uint64:
    """The opponent's men, except the king, that attack `square` (their pawns move towards rank 1)."""
    return (
        (pawn_attackers_above(square) & pawns)
        | (KNIGHT_ATTACKS[square] & knights)
        | (bishop_attacks(square, occupied) & diagonal)
        | (rook_attacks(square, occupied) & straight)
    )


@jit
def en_passant_captors(
    file: np.uint64,
    own_pawns: np.uint64,
    king_square: np.uint64,
    pawns: np.uint64,
    knights: np.uint64,
    diagonal: np.uint64,
    straight: np.uint64,
    occupied: np.uint64,
) -> np.uint64:
    """Own pawns that may legally take the pawn that has just advanced two squares on `file`.

    This is the only move that is made and tested: it removes two men from one rank, which no pin detection
    sees. All boards are as the side to move sees them; the other boards are the opponent's.
    """
    taken = ONE << (file + np.uint64(32))  # on the fifth rank
    target = taken << np.uint64(8)
    near = own_pawns & (((taken & NOT_A_FILE) >> ONE) | ((taken & NOT_H_FILE) << ONE))
    legal = ZERO
    while near:
        captor = near & (ZERO - near)  # the lowest bit: x & -x, in two's complement
        after = occupied ^ captor ^ taken ^ target
        if not attackers_of(king_square, pawns & ~taken, knights, diagonal, straight, after):
            legal |= captor
        near ^= captor
    return legal
