"""A heuristic value for shogi without search: material, on the board and in hand. For jitted code.

In hundredths of a pawn (`games.shogi.material`). Captures and promotions are noisy.
"""
# mypy: disable-error-code="no-any-return,return-value"

from __future__ import annotations

import numpy as np

from games.bits import ONE, ZERO, count_ones
from games.jit import jit
from games.shogi.actions import DROP_PLANE, PROMOTION_PLANE, squares_of
from games.shogi.boards import Board
from games.shogi.layout import (
    BISHOP,
    GOLD,
    KNIGHT,
    LANCE,
    PAWN,
    PROMOTED,
    ROOK,
    SILVER,
    Men,
    code_at,
    hand_of,
    in_hand,
    kinds_seen,
    men_of,
    occupied_of,
    sides_seen,
)
from games.shogi.material import BY_CODE
from games.spec import State

_PLAIN = np.uint64(15)
_PROMOTION_PLANE, _DROP_PLANE = np.uint64(PROMOTION_PLANE), np.uint64(DROP_PLANE)
_HORSE_MORE = int(BY_CODE[BISHOP + PROMOTED] - BY_CODE[BISHOP])
_DRAGON_MORE = int(BY_CODE[ROOK + PROMOTED] - BY_CODE[ROOK])
_PROMOTION_SCORE = 500


@jit
def _worth(board: Board, value: int) -> int:
    return value * np.int64(count_ones(board[0]) + count_ones(board[1]))


@jit
def _worth_of_side(men: Men, hand: np.uint64) -> int:
    total = _worth(men.pawns, BY_CODE[PAWN]) + _worth(men.lances, BY_CODE[LANCE])
    total += _worth(men.knights, BY_CODE[KNIGHT]) + _worth(men.silvers, BY_CODE[SILVER])
    total += _worth(men.golds, BY_CODE[GOLD])  # promoted small pieces are worth the same
    total += _worth(men.diagonal, BY_CODE[BISHOP]) + _worth(men.horses, _HORSE_MORE)
    total += _worth(men.straight, BY_CODE[ROOK]) + _worth(men.dragons, _DRAGON_MORE)
    for kind in range(PAWN, ROOK + 1):
        total += BY_CODE[kind] * np.int64(in_hand(hand, kind))
    return total


@jit
def material(state: State) -> int:
    """Own material minus the opponent's, for the side to move."""
    side = state[10] & ONE
    kinds = kinds_seen(state, ZERO)
    black, white = sides_seen(state, occupied_of(kinds), ZERO)
    ahead = _worth_of_side(men_of(kinds, black), hand_of(state, ZERO))
    ahead -= _worth_of_side(men_of(kinds, white), hand_of(state, ONE))
    return -ahead if side else ahead


@jit
def is_noisy(state: State, action: int) -> bool:
    """Whether the move is a capture or a promotion."""
    _, target, plane = squares_of(action, state[10] & ONE)
    if plane >= _DROP_PLANE:
        return False
    return plane >= _PROMOTION_PLANE or code_at(state, target) != ZERO


@jit
def order_score(state: State, action: int) -> int:
    """Ordering score: the most valuable victim first, taken by the least valuable piece; then promotions;
    then the rest."""
    origin, target, plane = squares_of(action, state[10] & ONE)
    if plane >= _DROP_PLANE:
        return 0
    victim, taker = code_at(state, target) & _PLAIN, code_at(state, origin) & _PLAIN
    if victim:
        return 10 * BY_CODE[victim] + 10 - BY_CODE[taker] // 100
    return _PROMOTION_SCORE if plane >= _PROMOTION_PLANE else 0
