"""The squares that a piece of shogi attacks, and moves as indices into the policy.

Attacks are computed from small tables with a few operations per ray, as in chess (`games.chess.board`). A
side's pieces move UP (towards rank a, as those of the side to move on a board rotated for it) or DOWN. A
piece that moves down attacks a square exactly if the same piece, moving up from that square, would attack the
piece. So each lookup can be reversed.

Actions are AlphaZero's 9 x 9 x 139 (arXiv 1712.01815, table S2): `action = plane * 81 + square`, all as the
side to move sees the board. Planes 0-63: the eight directions (N, NE, E, SE, S, SW, W, NW) times distances
1-8, from the from-square; 64 and 65: the knight's jumps to the left and to the right; 66-131: the same 66
with promotion; 132-138: drops of a pawn, lance, knight, silver, gold, bishop, rook onto the square. Of these
11,259 actions, 3,781 can be legal in some position.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from azselfplay.games.bits import ONE, ZERO, count_leading_zeros
from azselfplay.games.boards import actions_by_squares, walk
from azselfplay.games.jit import jit
from azselfplay.games.shogi.board import (
    BISHOP,
    EMPTY,
    KING,
    KNIGHT,
    LANCE,
    PAWN,
    PROMOTED,
    ROOK,
    SILVER,
    SQUARES,
    Board,
    Men,
    board_of,
    lowest,
    overlap,
    single,
    some,
    turned_square,
    union,
    without,
    without_lowest,
)

Words = npt.NDArray[np.uint64]


# ---- Attacks -------------------------------------------------------------------------------------


UP, DOWN = np.uint64(0), np.uint64(1)

DIRECTIONS = ((0, -1), (-1, -1), (-1, 0), (-1, 1), (0, 1), (1, 1), (1, 0), (1, -1))
"""(files, ranks) of N, NE, E, SE, S, SW, W, NW as Black sees the board: the order of AlphaZero's planes."""
KNIGHT_JUMPS = ((1, -2), (-1, -2))
"""To the left and to the right."""
_N, _NE, _E, _SE, _S, _SW, _W, _NW = DIRECTIONS
_STEPS = ((_N,), KNIGHT_JUMPS, (_N, _NE, _SE, _SW, _NW), (_N, _NE, _E, _S, _W, _NW))
"""Steps of a pawn, a knight, a silver and a gold that move up."""
PAWN_STEP, KNIGHT_STEP, SILVER_STEP, GOLD_STEP = (np.uint64(SQUARES * number) for number in range(4))
"""Offsets of the pieces' rows in `STEPS`."""
_DOWNWARDS = np.uint64(4 * SQUARES)

_TOP_BIT = np.uint64(63)
_ALL_BITS = np.uint64(0xFFFFFFFFFFFFFFFF)
_SQUARES, _NINE, _FOUR = np.uint64(SQUARES), np.uint64(9), np.uint64(4)
NO_DIRECTION = 8


def _leaper(jumps: tuple[tuple[int, int], ...], way: int = 1) -> list[tuple[int, int]]:
    """Return `[square]`: the squares that a piece with these steps can reach from there. With `way` -1 it
    moves down."""
    return [
        board_of([to for files, ranks in jumps for to in walk(9, square, (files, way * ranks), 1)])
        for square in range(SQUARES)
    ]


RAYS = np.array(
    [board_of(walk(9, square, step, 8)) for square in range(SQUARES) for step in (*DIRECTIONS, (9, 9))],
    dtype=np.uint64,
)
"""`[square * 9 + direction]`, two words each: the squares of that ray; empty for direction 8."""
DIRECTION = np.full(SQUARES * SQUARES, NO_DIRECTION, dtype=np.uint8)
"""`[a * 81 + b]`: the direction from a to b, or 8 if they share no line."""
for _a in range(SQUARES):
    for _number, _direction in enumerate(DIRECTIONS):
        DIRECTION[[_a * SQUARES + b for b in walk(9, _a, _direction, 8)]] = _number
STEPS = np.array([row for way in (1, -1) for jumps in _STEPS for row in _leaper(jumps, way)], dtype=np.uint64)
"""`[(way * 4 + piece) * 81 + square]`, two words each: see `PAWN_STEP` and so on."""
AROUND = np.array(_leaper(DIRECTIONS), dtype=np.uint64)
"""`[square]`, two words each: the steps of a king."""
ORTHOGONAL = np.array(_leaper((_N, _E, _S, _W)), dtype=np.uint64)
"""Steps that a horse has besides the moves of a bishop."""
DIAGONAL = np.array(_leaper((_NE, _SE, _SW, _NW)), dtype=np.uint64)
"""Steps that a dragon has besides the moves of a rook."""


@jit
def row(table: Words, index: np.uint64) -> Board:
    """Return a row of one of these tables."""
    return table[index, 0], table[index, 1]


@jit
def ray(square: np.uint64, direction: int) -> Board:
    return row(RAYS, square * _NINE + np.uint64(direction))


@jit
def ray_through(square: np.uint64, other: np.uint64) -> Board:
    """Return the ray from `square` through `other`; empty if they share no line."""
    return row(RAYS, square * _NINE + np.uint64(DIRECTION[square * _SQUARES + other]))


@jit
def line_to(square: np.uint64, other: np.uint64) -> Board:
    """Return the squares from `square` (excluded) to `other` (included); `other` alone if they share no
    line."""
    direction = np.uint64(DIRECTION[square * _SQUARES + other])
    beyond = row(RAYS, other * _NINE + direction)
    return union(without(row(RAYS, square * _NINE + direction), beyond), single(other))


@jit
def _rising(squares: Board, occupied: Board) -> Board:
    """Return the part of a ray towards higher squares, up to and including the first piece on it."""
    low, high = squares[0] & occupied[0], squares[1] & occupied[1]
    # x ^ (x - 1) has all bits up to the lowest set bit of x, and all bits if x is 0
    if low:
        return squares[0] & (low ^ (low - ONE)), ZERO
    return squares[0], squares[1] & (high ^ (high - ONE))


@jit
def _falling(squares: Board, occupied: Board) -> Board:
    """Return the part of a ray towards lower squares, up to and including the first piece on it."""
    low, high = squares[0] & occupied[0], squares[1] & occupied[1]
    # 63 ^ clz is the index of the highest piece; shifting all ones clears the squares below it
    if high:
        return ZERO, squares[1] & (_ALL_BITS << (_TOP_BIT ^ count_leading_zeros(high)))
    return squares[0] & (_ALL_BITS << (_TOP_BIT ^ count_leading_zeros(low | ONE))), squares[1]


@jit
def lance_attacks(square: np.uint64, occupied: Board) -> Board:
    """Return the squares that a lance on `square` attacks, moving up."""
    return _falling(ray(square, 0), occupied)


@jit
def lance_attacks_down(square: np.uint64, occupied: Board) -> Board:
    """Return the squares that a lance on `square` attacks, moving down."""
    return _rising(ray(square, 4), occupied)


@jit
def rook_attacks(square: np.uint64, occupied: Board) -> Board:
    """Return the squares that a rook on `square` attacks, including the first piece in each direction."""
    falling = union(_falling(ray(square, 0), occupied), _falling(ray(square, 2), occupied))
    rising = union(_rising(ray(square, 4), occupied), _rising(ray(square, 6), occupied))
    return union(falling, rising)


@jit
def bishop_attacks(square: np.uint64, occupied: Board) -> Board:
    """Return the squares that a bishop on `square` attacks, including the first piece in each direction."""
    falling = union(_falling(ray(square, 1), occupied), _falling(ray(square, 3), occupied))
    rising = union(_rising(ray(square, 5), occupied), _rising(ray(square, 7), occupied))
    return union(falling, rising)


@jit
def _lances_from(square: np.uint64, way: np.uint64) -> Board:
    """Return the squares from which a lance that moves `way` attacks `square` on an empty board."""
    # A lance that moves down attacks from above.
    return ray(square, 0 if way == DOWN else 4)


@jit
def attackers_of(square: np.uint64, men: Men, occupied: Board, way: np.uint64) -> Board:
    """Return those of `men`, except the king, that attack `square`. The men move `way`."""
    # Look up the steps of pieces that move the other way from `square`: those squares are the origins of
    # attacks.
    at = square + (ZERO if way == DOWN else _DOWNWARDS)
    straight, diagonal = rook_attacks(square, occupied), bishop_attacks(square, occupied)
    found = union(overlap(straight, men.straight), overlap(diagonal, men.diagonal))
    found = union(found, overlap(overlap(straight, _lances_from(square, way)), men.lances))
    found = union(found, overlap(row(ORTHOGONAL, square), men.horses))
    found = union(found, overlap(row(DIAGONAL, square), men.dragons))
    found = union(found, overlap(row(STEPS, at + PAWN_STEP), men.pawns))
    found = union(found, overlap(row(STEPS, at + KNIGHT_STEP), men.knights))
    found = union(found, overlap(row(STEPS, at + SILVER_STEP), men.silvers))
    return union(found, overlap(row(STEPS, at + GOLD_STEP), men.golds))


@jit
def attacking_squares(square: np.uint64, kind: np.uint64, straight: Board, diagonal: Board) -> Board:
    """Return the squares from which a piece of `kind` (a code without colour) that moves up attacks `square`.
    A king attacks none. `straight`, `diagonal`: what a rook and a bishop on `square` attack."""
    at = square + _DOWNWARDS
    if kind == PAWN:
        return row(STEPS, at + PAWN_STEP)
    if kind == LANCE:
        return overlap(straight, _lances_from(square, UP))
    if kind == KNIGHT:
        return row(STEPS, at + KNIGHT_STEP)
    if kind == SILVER:
        return row(STEPS, at + SILVER_STEP)
    if kind == BISHOP:
        return diagonal
    if kind == ROOK:
        return straight
    if kind == PROMOTED + BISHOP:
        return union(diagonal, row(ORTHOGONAL, square))
    if kind == PROMOTED + ROOK:
        return union(straight, row(DIAGONAL, square))
    if kind == KING:
        return EMPTY
    return row(STEPS, at + GOLD_STEP)


@jit
def pinned(square: np.uint64, own: Board, foes: Men, occupied: Board, way: np.uint64) -> Board:
    """Return the pieces of `own` that stand alone between their king on `square` and a sliding piece of
    `foes`, which move `way`."""
    # X-ray: remove the king's nearest own pieces from the board and look again. A slider that is seen only
    # now pins one of them.
    near = overlap(own, union(bishop_attacks(square, occupied), rook_attacks(square, occupied)))
    beyond = without(occupied, near)
    # A lance attacks only forwards, so it pins only from one side.
    lances = overlap(foes.lances, _lances_from(square, way))
    pinners = overlap(rook_attacks(square, beyond), union(foes.straight, lances))
    pinners = union(pinners, overlap(bishop_attacks(square, beyond), foes.diagonal))
    between = EMPTY
    while some(pinners):
        between = union(between, line_to(square, lowest(pinners)))
        pinners = without_lowest(pinners)
    return overlap(between, near)


@jit
def safe_steps(square: np.uint64, own: Board, foes: Men, occupied: Board, way: np.uint64) -> Board:
    """Return the squares to which the king on `square` can step: those without a piece of `own` that no piece
    of `foes`, which move `way`, attacks."""
    left = without(row(AROUND, square), own)
    # Without the king itself, which does not shield the squares behind it.
    behind = without(occupied, single(square))
    safe = EMPTY
    while some(left):
        to = lowest(left)
        left = without_lowest(left)
        danger = attackers_of(to, foes, behind, way)
        if not some(union(danger, overlap(row(AROUND, to), foes.king))):
            safe = union(safe, single(to))
    return safe


# ---- Actions -------------------------------------------------------------------------------------


PLANES = 139
ACTIONS = PLANES * SQUARES
PROMOTION_PLANE = 66
DROP_PLANE = 132
PROMOTION = PROMOTION_PLANE * SQUARES
"""Added to the action of the move without promotion."""


PLANE_STEPS = (
    *((files * far, ranks * far) for files, ranks in DIRECTIONS for far in range(1, 9)),
    *KNIGHT_JUMPS,
)
"""(files, ranks) of the planes 0-65."""
PLANE_SHIFT = np.array(
    [9 * files + ranks for files, ranks in (*PLANE_STEPS * 2, *[(0, 0)] * 7)], dtype=np.int64
)
"""`[plane]`: what a move adds to its from-square; 0 for a drop."""
ACTION_OF = actions_by_squares(9, PLANE_STEPS)
"""`[from * 81 + to]`: the move without promotion."""


@jit
def squares_of(action: int, side: np.uint64) -> tuple[np.uint64, np.uint64, np.uint64]:
    """Return (from, to, plane) of an action of `side`; squares as Black sees them. For a drop both squares
    are the same."""
    plane, seen = np.uint64(action) // np.uint64(SQUARES), np.uint64(action) % np.uint64(SQUARES)
    # Signed, because many shifts are negative.
    target = np.uint64(np.int64(seen) + PLANE_SHIFT[plane])
    return turned_square(seen, side), turned_square(target, side), plane
