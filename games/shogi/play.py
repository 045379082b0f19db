"""The position after a move: two squares get new codes, and a piece goes into a hand or leaves it."""

from __future__ import annotations

import numpy as np

from games.bits import ONE
from games.jit import jit
from games.shogi.actions import DROP_PLANE, PROMOTION_PLANE, squares_of
from games.shogi.boards import Board, single, union
from games.shogi.layout import (
    CODE_BITS,
    HAND_BITS,
    HAND_SHIFT,
    PAWN,
    PLIES_SHIFT,
    PROMOTED,
    code_at,
)
from games.spec import State

_KIND = np.uint64(7)
_WHITE_SHIFT = np.uint64(4)


@jit
def _place(parent: State, cleared: Board, target: np.uint64, code: np.uint64, child: State) -> None:
    """Write the board of `parent` with the squares `cleared` empty and then `code` on `target`."""
    reached = single(target)
    for bit in range(CODE_BITS):
        one = (code >> np.uint64(bit)) & ONE  # multiplied by the square, this sets the bit without a branch
        child[2 * bit] = (parent[2 * bit] & ~cleared[0]) | (reached[0] * one)
        child[2 * bit + 1] = (parent[2 * bit + 1] & ~cleared[1]) | (reached[1] * one)


@jit
def play(parent: State, action: int, child: State) -> None:
    """Write the position after a legal `action` (see `games.spec`)."""
    rest = parent[10]
    side = rest & ONE
    origin, target, plane = squares_of(action, side)
    hand_at = ONE + side * HAND_BITS
    if plane >= np.uint64(DROP_PLANE):
        kind = plane - np.uint64(DROP_PLANE - PAWN)
        _place(parent, single(target), target, kind | side << _WHITE_SHIFT, child)
        rest -= ONE << (hand_at + HAND_SHIFT[kind])
    else:
        code, took = code_at(parent, origin), code_at(parent, target)
        if plane >= np.uint64(PROMOTION_PLANE):
            code |= np.uint64(PROMOTED)
        _place(parent, union(single(origin), single(target)), target, code, child)
        if took:  # a captured piece loses promotion and colour
            rest += ONE << (hand_at + HAND_SHIFT[took & _KIND])
    child[10] = (rest ^ ONE) + (ONE << PLIES_SHIFT)
