"""Castling: when it is legal, which castling rights a move loses, and where king and rook stand afterwards.

In chess, castling is the king's step of two squares, and kings and rooks begin on known squares. In chess960
they may begin anywhere on the first rank, so word 8 also holds the files of the rooks that may still castle
(see `games.chess.board`). There castling is the king's move onto its own rook, which is never another legal
move. King and rook end where they do in chess. All squares between their old and new ones must be empty
except for king and rook themselves, and the king must not cross an attacked square.

In chess those bits of word 8 are 0, which is the only difference between the two games here: both use the
same compiled rules. Once no castling right is left, they are the same game.
"""

from __future__ import annotations

import numpy as np

from azselfplay.games.bits import ONE, ZERO, count_trailing_zeros
from azselfplay.games.chess.board import (
    ACTION_OF,
    BETWEEN,
    CASTLING_ROOKS_SHIFT,
    EAST_TWO,
    RIGHTS_MASK,
    WEST_TWO,
    rook_attacks,
    turned,
)
from azselfplay.games.jit import jit
from azselfplay.games.spec import State
from azselfplay.games.stubs import Actions

# ---- Chess ---------------------------------------------------------------------------------------


_SHORT_PATH = np.uint64(0x60)
"""f1 and g1."""
_LONG_EMPTY = np.uint64(0x0E)
"""b1, c1 and d1; the king crosses only c1 and d1."""
_LONG_SAFE = np.uint64(0x0C)

CASTLES_SHORT, CASTLES_LONG = np.uint64(EAST_TWO // 64), np.uint64(WEST_TWO // 64)
"""Planes of the king's moves."""
SHORT_ROOK, LONG_ROOK = np.uint64(0b10100000), np.uint64(0b00001001)
"""The rook's old and new square, as bits: when the king lands on g1, and when it lands on c1."""

_LOST_RIGHTS = {0: 0b00100, 7: 0b00010, 4: 0b00110, 56: 0b10000, 63: 0b01000, 60: 0b11000}
"""By start square of a king or rook: the rights lost when a move starts or ends there."""
KEPT_RIGHTS = np.array(
    [int(RIGHTS_MASK) & ~_LOST_RIGHTS.get(square, 0) for square in range(64)], dtype=np.uint64
)
"""Castling rights that remain when a move starts or ends on each square."""


@jit
def write_castling(
    king_square: np.uint64,
    rights: np.uint64,
    occupied: np.uint64,
    danger: np.uint64,
    actions: Actions,
    count: np.uint64,
) -> np.uint64:
    """Append castling moves. The king must not be in check; the rook may cross attacked squares. `rights`:
    bit 0 short, bit 1 long."""
    if rights & ONE and not (occupied | danger) & _SHORT_PATH:
        actions[count] = np.uint64(EAST_TWO) + king_square
        count += ONE
    if rights & np.uint64(2) and not (occupied & _LONG_EMPTY) | (danger & _LONG_SAFE):
        actions[count] = np.uint64(WEST_TWO) + king_square
        count += ONE
    return count


# ---- Chess960 ------------------------------------------------------------------------------------


_SIX, _EIGHT = np.uint64(6), np.uint64(8)
FIRST_RANK = np.uint64(0xFF)
_OF_BLACK = np.uint64(0xFF00)
_LAST_RANK_SHIFT = np.uint64(48)
"""Shifts the last rank to the byte of Black's rooks."""
_LAST_RANK = np.uint64(56)
"""Mask of the bits of a square's number that give its rank; all are set on the last rank."""
_SHORT_KING_TO, _SHORT_ROOK_TO, _LONG_KING_TO, _LONG_ROOK_TO = (np.uint64(file) for file in (6, 5, 2, 3))


@jit
def write_castling_960(
    king_square: np.uint64,
    rooks: np.uint64,
    occupied: np.uint64,
    danger: np.uint64,
    foe_straight: np.uint64,
    actions: Actions,
    count: np.uint64,
) -> np.uint64:
    """Append castling moves with each of `rooks`, a bitboard of the first rank. The king must not be in
    check. All boards are as the side to move sees them."""
    king = ONE << king_square
    while rooks:
        square = count_trailing_zeros(rooks)
        rooks &= rooks - ONE
        king_to, rook_to = _LONG_KING_TO, _LONG_ROOK_TO
        if square > king_square:
            king_to, rook_to = _SHORT_KING_TO, _SHORT_ROOK_TO
        rook, goal = ONE << square, ONE << king_to
        crossed = goal | BETWEEN[(king_square << _SIX) + king_to]
        empty = crossed | (ONE << rook_to) | BETWEEN[(square << _SIX) + rook_to]
        others = occupied & ~(king | rook)
        if empty & others or crossed & danger:
            continue
        # The rook may have shielded the king's new square: a rook on a1 attacks c1 once the castling rook
        # leaves b1.
        if rook_attacks(king_to, others | (ONE << rook_to)) & foe_straight:
            continue
        actions[count] = ACTION_OF[(king_square << _SIX) + square]
        count += ONE
    return count


@jit
def castling_of(state: State, rooks: np.uint64) -> np.uint64:
    """Return the bits of word 8 for castling with `rooks`: the files of White's in the lowest byte, of
    Black's in the next. The king of a side with such rooks must stand on its first rank."""
    flags = rooks << CASTLING_ROOKS_SHIFT
    for side in (ZERO, ONE):
        own = (rooks >> (_EIGHT * side)) & FIRST_RANK
        king = turned(state[5] & state[_SIX + side], side)
        if own > king:
            flags |= ONE << (ONE + side + side)
        if own & (king - ONE):
            flags |= ONE << (ONE + ONE + side + side)
    return flags


@jit
def finish_960(
    parent: State, child: State, side: np.uint64, origin: np.uint64, target: np.uint64
) -> np.uint64:
    """Finish a move of `side` in a chess960 position with castling rights. If the move is castling, put king
    and rook on their new squares. Returns the bits of word 8 for castling after the move."""
    left, reached, rank = ONE << origin, ONE << target, target & _LAST_RANK
    rooks = parent[8] >> CASTLING_ROOKS_SHIFT
    rooks &= ~((left | reached) & FIRST_RANK | ((left | reached) >> _LAST_RANK_SHIFT) & _OF_BLACK)
    if parent[5] & left:
        rooks &= FIRST_RANK if side else _OF_BLACK
        if parent[_SIX + side] & reached:  # castling: so far the king stands where its rook was
            king_to, rook_to = rank | _LONG_KING_TO, rank | _LONG_ROOK_TO
            if target > origin:
                king_to, rook_to = rank | _SHORT_KING_TO, rank | _SHORT_ROOK_TO
            child[5] = (child[5] & ~reached) | (ONE << king_to)
            child[3] |= ONE << rook_to
            child[_SIX + side] |= (ONE << king_to) | (ONE << rook_to)
    return castling_of(child, rooks)
