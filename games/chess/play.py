"""The position after a move: copy the nine words, then update what the move changes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from games.bits import ONE, ZERO, count_trailing_zeros
from games.chess.actions import PLANE_SHIFT
from games.chess.attacks import NOT_A_FILE, NOT_H_FILE, en_passant_captors
from games.chess.layout import (
    CLOCK_MASK,
    CLOCK_SHIFT,
    EN_PASSANT_SHIFT,
    PLIES_SHIFT,
    RIGHTS_MASK,
    UPSIDE_DOWN,
    turned,
)
from games.jit import jit
from games.spec import State

_LAST_SQUARE = np.uint64(63)
_SIX = np.uint64(6)
_QUEENS = np.uint64(4)
_FIRST_AND_LAST_RANK = np.uint64(0xFF000000000000FF)
_UNDERPROMOTION_PLANE = np.uint64(64)
_EAST_TWO, _WEST_TWO = np.uint64(15), np.uint64(43)
_SHORT_ROOK, _LONG_ROOK = np.uint64(0b10100000), np.uint64(0b00001001)
"""Both squares of the rook when the king lands on g1, and on c1."""


def _kept_rights() -> npt.NDArray[np.uint64]:
    """Castling rights that remain when a move starts or ends on each square."""
    lost = {0: 0b00100, 7: 0b00010, 4: 0b00110, 56: 0b10000, 63: 0b01000, 60: 0b11000}
    kept = [int(RIGHTS_MASK) & ~lost.get(square, 0) for square in range(64)]
    return np.array(kept, dtype=np.uint64)


KEPT_RIGHTS = _kept_rights()


@jit
def en_passant_field(state: State, side: np.uint64, file: np.uint64) -> np.uint64:
    """`file + 1` if `side` may legally take en passant on `file`, else 0. Does not read word 8."""
    own, other = turned(state[_SIX + side], side), turned(state[np.uint64(7) - side], side)
    pawns, knights, queens = turned(state[0], side), turned(state[1], side), turned(state[4], side)
    diagonal, straight = turned(state[2], side) | queens, turned(state[3], side) | queens
    king_square = count_trailing_zeros(turned(state[5], side) & own)
    captors = en_passant_captors(
        file,
        pawns & own,
        king_square,
        pawns & other,
        knights & other,
        diagonal & other,
        straight & other,
        own | other,
    )
    return file + ONE if captors else ZERO


@jit
def _finish_pawn_move(
    child: State, side: np.uint64, plane: np.uint64, origin: np.uint64, target: np.uint64, took: np.uint64
) -> np.uint64:
    """Promote, take en passant, or return the en-passant field after a double step (else 0)."""
    reached, foe = ONE << target, np.uint64(7) - side
    if reached & _FIRST_AND_LAST_RANK:
        promoted = _QUEENS
        if plane >= _UNDERPROMOTION_PLANE:
            promoted = ONE + (plane - _UNDERPROMOTION_PLANE) // np.uint64(3)
        child[0] ^= reached
        child[promoted] |= reached
    elif origin ^ target == np.uint64(16):  # ranks 2 and 4, or 7 and 5, differ in this bit alone
        near = ((reached & NOT_A_FILE) >> ONE) | ((reached & NOT_H_FILE) << ONE)
        if near & child[0] & child[foe]:  # rare: only then is it checked whether they may capture
            return en_passant_field(child, side ^ ONE, target & np.uint64(7))
    elif not took and (origin ^ target) & np.uint64(7):  # to another file, and the square was empty
        passed = ONE << (target ^ np.uint64(8))  # ranks 6 and 5, or 3 and 4
        child[0] ^= passed
        child[foe] ^= passed
    return ZERO


@jit
def play(parent: State, action: int, child: State) -> None:
    """Write the position after a legal `action` (see `games.spec`)."""
    move = np.uint64(action)
    flags = parent[8]
    side = flags & ONE
    view = UPSIDE_DOWN if side else ZERO
    plane = move >> _SIX
    origin = (move & _LAST_SQUARE) ^ view
    target = (((move & _LAST_SQUARE) + PLANE_SHIFT[plane]) & _LAST_SQUARE) ^ view
    left, reached = ONE << origin, ONE << target
    pawn_moved, king_moved = parent[0] & left, parent[5] & left
    foe = parent[np.uint64(7) - side]
    took = foe & reached
    for piece in range(6):  # without a branch: both squares are cleared, and the bit of `origin` is set again
        board = parent[piece]
        child[piece] = (board & ~(left | reached)) | (((board >> origin) & ONE) << target)
    child[_SIX + side] = parent[_SIX + side] ^ left ^ reached
    child[np.uint64(7) - side] = foe ^ took
    en_passant = ZERO
    if pawn_moved:
        en_passant = _finish_pawn_move(child, side, plane, origin, target, took)
    elif king_moved and plane in (_EAST_TWO, _WEST_TWO):
        rook = _SHORT_ROOK << (target - _SIX) if plane == _EAST_TWO else _LONG_ROOK << (target - np.uint64(2))
        child[3] ^= rook  # clears the one square of the rook and sets the other
        child[_SIX + side] ^= rook
    clock = ZERO if took or pawn_moved else ((flags >> CLOCK_SHIFT) & CLOCK_MASK) + ONE
    child[8] = (
        (side ^ ONE)
        | (flags & KEPT_RIGHTS[origin] & KEPT_RIGHTS[target])
        | (en_passant << EN_PASSANT_SHIFT)
        | (clock << CLOCK_SHIFT)
        | (((flags >> PLIES_SHIFT) + ONE) << PLIES_SHIFT)
    )
