"""What a chess position is worth without search: material and mobility. For jitted code.

Centipawns: pawn 100, knight 320, bishop 330, rook 500, queen 900, and 2 for each square that a knight,
bishop, rook or queen attacks (own men's squares too). Captures, en-passant captures and promotions are noisy.
"""
# mypy: disable-error-code="no-any-return,return-value"

from __future__ import annotations

import numpy as np

from games.bits import ONE, ZERO, count_ones, count_trailing_zeros
from games.chess.actions import PLANE_SHIFT
from games.chess.attacks import KNIGHT_ATTACKS, bishop_attacks, rook_attacks
from games.chess.layout import UPSIDE_DOWN
from games.jit import jit
from games.spec import State

PIECE_VALUES = np.array([100, 320, 330, 500, 900, 0], dtype=np.int64)
MOBILITY = 2
"""Centipawns per attacked square."""

_LAST_SQUARE, _SIX = np.uint64(63), np.uint64(6)
_LAST_RANK = np.uint64(56)
"""The bits of a square that give its rank; all set: the last rank."""
_QUEEN_LIKE = np.uint64(64)
_FILE = np.uint64(7)


@jit
def material(state: State) -> int:
    """Own material minus the opponent's, for the side to move."""
    side = state[8] & ONE
    own, foe = state[_SIX + side], state[np.uint64(7) - side]
    total = 0
    for piece in range(5):
        ahead = np.int64(count_ones(state[piece] & own)) - np.int64(count_ones(state[piece] & foe))
        total += PIECE_VALUES[piece] * ahead
    return total


@jit
def attacked_squares(state: State, men: np.uint64) -> int:
    """Squares attacked by the knights, bishops, rooks and queens of `men`, counted once per attacker."""
    occupied = state[6] | state[7]
    total = ZERO
    knights, diagonal, straight = state[1] & men, (state[2] | state[4]) & men, (state[3] | state[4]) & men
    while knights:
        total += count_ones(KNIGHT_ATTACKS[count_trailing_zeros(knights)])
        knights &= knights - ONE
    while diagonal:
        total += count_ones(bishop_attacks(count_trailing_zeros(diagonal), occupied))
        diagonal &= diagonal - ONE
    while straight:
        total += count_ones(rook_attacks(count_trailing_zeros(straight), occupied))
        straight &= straight - ONE
    return np.int64(total)


@jit
def evaluate(state: State) -> int:
    """Material and mobility for the side to move, centipawns."""
    side = state[8] & ONE
    mobility = attacked_squares(state, state[_SIX + side])
    mobility -= attacked_squares(state, state[np.uint64(7) - side])
    return material(state) + MOBILITY * mobility


@jit
def _squares(state: State, action: int) -> tuple[np.uint64, np.uint64, np.uint64]:
    """(from, to, plane) of an action; squares as White sees them."""
    move = np.uint64(action)
    view = UPSIDE_DOWN if state[8] & ONE else ZERO
    plane = move >> _SIX
    target = ((move & _LAST_SQUARE) + PLANE_SHIFT[plane]) & _LAST_SQUARE
    return (move & _LAST_SQUARE) ^ view, target ^ view, plane


@jit
def _piece_on(state: State, square: np.uint64) -> int:
    """Index of the piece on a square, 5 if there is none (whose value is 0, like the king's)."""
    for piece in range(5):
        if (state[piece] >> square) & ONE:
            return piece
    return 5


@jit
def _is_pawn_capture_or_promotion(state: State, origin: np.uint64, target: np.uint64) -> bool:
    if not (state[0] >> origin) & ONE:
        return False
    rank = target & _LAST_RANK
    return rank in (ZERO, _LAST_RANK) or ((origin ^ target) & _FILE) != ZERO


@jit
def is_noisy(state: State, action: int) -> bool:
    """Whether the move is a capture (also en passant) or a promotion."""
    origin, target, _ = _squares(state, action)
    if ((state[6] | state[7]) >> target) & ONE:
        return True
    return _is_pawn_capture_or_promotion(state, origin, target)


@jit
def order_score(state: State, action: int) -> int:
    """Ordering score: the most valuable victim first, taken by the least valuable man; then promotions; then
    the rest."""
    origin, target, plane = _squares(state, action)
    score = 0
    if ((state[6] | state[7]) >> target) & ONE:
        score = 10 * PIECE_VALUES[_piece_on(state, target)] - _piece_on(state, origin) + 10
    elif plane < _QUEEN_LIKE and _is_pawn_capture_or_promotion(state, origin, target):
        score = 500
    return score
