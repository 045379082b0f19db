"""Legal moves, by check mask and pins: no move is made to see whether it was legal.

The board is turned so that the side to move always moves up; so one generator serves both colours and
directly writes policy indices. A pinned man may only move along the line through its king. In check, only
moves that take the checker or step between it and the king remain. En passant, which opens two squares of a
rank at a time, is tested separately (`attacks.en_passant_captors`).

Two tricks recur. `bits & (bits - ONE)` clears the lowest set bit, so a loop visits only the men or targets of
a board, and the result is 0 exactly if there was only one bit. And a shift moves all men of a board at once,
8 bits for a rank, 1 bit for a file, once those on the edge that would wrap around are masked out.

`actions`, in all functions, is uint16[max_legal]; `count` says how many are written.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from games.bits import ONE, ZERO, count_trailing_zeros
from games.chess.actions import (
    ACTION_OF,
    EAST_TWO,
    NORTH_EAST_ONE,
    NORTH_ONE,
    NORTH_TWO,
    NORTH_WEST_ONE,
    WEST_TWO,
)
from games.chess.attacks import (
    BETWEEN,
    FALLING_THROUGH,
    FILE_THROUGH,
    KING_ATTACKS,
    KNIGHT_ATTACKS,
    NOT_A_FILE,
    NOT_H_FILE,
    RISING_THROUGH,
    THROUGH,
    all_attacks,
    attackers_of,
    bishop_attacks,
    en_passant_captors,
    rook_attacks,
)
from games.chess.layout import EN_PASSANT_MASK, EN_PASSANT_SHIFT, EVERYWHERE, turned
from games.jit import jit
from games.spec import Positions

Actions = npt.NDArray[np.uint16]

MAX_LEGAL = 256
"""218 is the largest known number; start positions come from text, so there is room for unusual ones."""

_SIX, _SEVEN, _EIGHT, _NINE, _SIXTEEN = (np.uint64(number) for number in (6, 7, 8, 9, 16))
_THIRD_RANK = np.uint64(0xFF0000)
_LAST_RANK = np.uint64(0xFF00000000000000)
_SHORT_EMPTY = np.uint64(0x60)
"""f1 and g1."""
_SHORT_SAFE = np.uint64(0x60)
_LONG_EMPTY = np.uint64(0x0E)
"""b1, c1 and d1; the king only crosses the last two."""
_LONG_SAFE = np.uint64(0x0C)
_UNDERPROMOTION_BASE = np.uint64(64 * 64)
_UNDERPROMOTION_STEP = np.uint64(3 * 64)


@jit
def _write_targets(square: np.uint64, targets: np.uint64, actions: Actions, count: np.uint64) -> np.uint64:
    """Append the moves of one man; returns the new count."""
    row = square << _SIX
    while targets:
        actions[count] = ACTION_OF[row + count_trailing_zeros(targets)]
        count += ONE
        targets &= targets - ONE
    return count


@jit
def _write_pawns(
    targets: np.uint64,
    step: np.uint64,
    base: np.uint64,
    side_step: np.uint64,
    actions: Actions,
    count: np.uint64,
) -> np.uint64:
    """Append pawn moves of one kind: each target lies `step` above its origin, and its plane is `base`.

    `side_step` is 0, 1, 2 for a pawn that goes left, straight, right (promotion planes).
    """
    quiet = targets & ~_LAST_RANK
    while quiet:
        actions[count] = base + count_trailing_zeros(quiet) - step
        count += ONE
        quiet &= quiet - ONE
    promoting = targets & _LAST_RANK
    while promoting:
        origin = count_trailing_zeros(promoting) - step
        first = _UNDERPROMOTION_BASE + (side_step << _SIX) + origin
        actions[count] = base + origin
        actions[count + ONE] = first
        actions[count + np.uint64(2)] = first + _UNDERPROMOTION_STEP
        actions[count + np.uint64(3)] = first + _UNDERPROMOTION_STEP + _UNDERPROMOTION_STEP
        count += np.uint64(4)
        promoting &= promoting - ONE
    return count


@jit
def _pinned(
    king_square: np.uint64, own: np.uint64, diagonal: np.uint64, straight: np.uint64, occupied: np.uint64
) -> np.uint64:
    """Own men that stand alone between the king and one of the opponent's sliding pieces."""
    # X-ray: remove the king's nearest own men from the board and look again. A slider seen only now pins one.
    near = own & (bishop_attacks(king_square, occupied) | rook_attacks(king_square, occupied))
    beyond = occupied ^ near
    pinners = bishop_attacks(king_square, beyond) & diagonal | rook_attacks(king_square, beyond) & straight
    pinned = ZERO
    while pinners:
        pinned |= BETWEEN[(king_square << _SIX) + count_trailing_zeros(pinners)]
        pinners &= pinners - ONE
    return pinned & near


@jit
def _pawn_moves(
    pawns: np.uint64,
    pinned: np.uint64,
    king_square: np.uint64,
    other: np.uint64,
    occupied: np.uint64,
    mask: np.uint64,
    actions: Actions,
    count: np.uint64,
) -> np.uint64:
    """Append all pawn moves except en passant, whole sets at a time.

    A pinned pawn on its king's file may advance; on a diagonal it may capture along that diagonal.
    """
    empty = ~occupied
    # `mask` is left out of `one`: the second step of a pawn may block a check that the first does not.
    one = ((pawns & (~pinned | FILE_THROUGH[king_square])) << _EIGHT) & empty
    two = ((one & _THIRD_RANK) << _EIGHT) & empty & mask
    left = ((pawns & (~pinned | FALLING_THROUGH[king_square]) & NOT_A_FILE) << _SEVEN) & other & mask
    right = ((pawns & (~pinned | RISING_THROUGH[king_square]) & NOT_H_FILE) << _NINE) & other & mask
    count = _write_pawns(one & mask, _EIGHT, np.uint64(NORTH_ONE), ONE, actions, count)
    count = _write_pawns(left, _SEVEN, np.uint64(NORTH_WEST_ONE), ZERO, actions, count)
    count = _write_pawns(right, _NINE, np.uint64(NORTH_EAST_ONE), np.uint64(2), actions, count)
    while two:
        actions[count] = np.uint64(NORTH_TWO) + count_trailing_zeros(two) - _SIXTEEN
        count += ONE
        two &= two - ONE
    return count


@jit
def _knight_moves(knights: np.uint64, mask: np.uint64, actions: Actions, count: np.uint64) -> np.uint64:
    """Append the moves of knights, none of which is pinned, onto the squares of `mask`."""
    while knights:
        square = count_trailing_zeros(knights)
        count = _write_targets(square, KNIGHT_ATTACKS[square] & mask, actions, count)
        knights &= knights - ONE
    return count


@jit
def _slider_moves(
    diagonal: np.uint64,
    straight: np.uint64,
    pinned: np.uint64,
    king_square: np.uint64,
    occupied: np.uint64,
    mask: np.uint64,
    actions: Actions,
    count: np.uint64,
) -> np.uint64:
    """Append the moves of bishops, rooks and queens onto the squares of `mask`."""
    line_row = king_square << _SIX
    while diagonal:
        square = count_trailing_zeros(diagonal)
        targets = bishop_attacks(square, occupied) & mask
        if (pinned >> square) & ONE:
            targets &= THROUGH[line_row + square]
        count = _write_targets(square, targets, actions, count)
        diagonal &= diagonal - ONE
    while straight:
        square = count_trailing_zeros(straight)
        targets = rook_attacks(square, occupied) & mask
        if (pinned >> square) & ONE:
            targets &= THROUGH[line_row + square]
        count = _write_targets(square, targets, actions, count)
        straight &= straight - ONE
    return count


@jit
def _write_castling(
    king_square: np.uint64,
    rights: np.uint64,
    occupied: np.uint64,
    danger: np.uint64,
    actions: Actions,
    count: np.uint64,
) -> np.uint64:
    """Append castling; the king must not be in check. `rights`: bit 0 short, bit 1 long. The rook may cross
    attacked squares."""
    if rights & ONE and not (occupied & _SHORT_EMPTY) | (danger & _SHORT_SAFE):
        actions[count] = np.uint64(EAST_TWO) + king_square
        count += ONE
    if rights & np.uint64(2) and not (occupied & _LONG_EMPTY) | (danger & _LONG_SAFE):
        actions[count] = np.uint64(WEST_TWO) + king_square
        count += ONE
    return count


@jit
def _write_en_passant(file: np.uint64, captors: np.uint64, actions: Actions, count: np.uint64) -> np.uint64:
    """Append the en-passant captures of the pawns `captors` (at most two)."""
    while captors:
        row = count_trailing_zeros(captors) << _SIX
        actions[count] = ACTION_OF[row + file + np.uint64(40)]  # 40 is a6, where the captor lands
        count += ONE
        captors &= captors - ONE
    return count


@jit
def legal_actions(positions: Positions, n: int, actions: Actions) -> int:
    """Write the legal actions of `positions[n - 1]` and return their number (see `games.spec`)."""
    state = positions[n - 1]
    flags = state[8]
    side = flags & ONE
    own, foe = turned(state[np.uint64(6) + side], side), turned(state[np.uint64(7) - side], side)
    occupied = own | foe
    pawns, knights, kings = turned(state[0], side), turned(state[1], side), turned(state[5], side)
    queens = turned(state[4], side)
    diagonal, straight = turned(state[2], side) | queens, turned(state[3], side) | queens
    foe_pawns, foe_knights, foe_diagonal, foe_straight = (
        pawns & foe,
        knights & foe,
        diagonal & foe,
        straight & foe,
    )
    king = kings & own
    square = count_trailing_zeros(king)
    checkers = attackers_of(square, foe_pawns, foe_knights, foe_diagonal, foe_straight, occupied)
    count = ZERO
    steps = KING_ATTACKS[square] & ~own
    if steps:  # seen through the king, which does not shield the squares behind it
        danger = all_attacks(foe_pawns, foe_knights, foe_diagonal, foe_straight, kings & foe, occupied ^ king)
        count = _write_targets(square, steps & ~danger, actions, count)
        rights = (flags >> (ONE + side + side)) & np.uint64(3)
        if rights and not checkers:
            count = _write_castling(square, rights, occupied, danger, actions, count)
    mask = EVERYWHERE
    if checkers:
        if checkers & (checkers - ONE):  # two at once: only the king can move
            return int(count)
        mask = checkers | BETWEEN[(square << _SIX) + count_trailing_zeros(checkers)]
    pinned = _pinned(square, own, foe_diagonal, foe_straight, occupied)
    count = _pawn_moves(pawns & own, pinned, square, foe, occupied, mask, actions, count)
    mask &= ~own
    knights, diagonal, straight = knights & own, diagonal & own, straight & own
    count = _knight_moves(knights & ~pinned, mask, actions, count)
    count = _slider_moves(diagonal, straight, pinned, square, occupied, mask, actions, count)
    en_passant = (flags >> EN_PASSANT_SHIFT) & EN_PASSANT_MASK
    if en_passant:
        file = en_passant - ONE
        captors = en_passant_captors(
            file, pawns & own, square, foe_pawns, foe_knights, foe_diagonal, foe_straight, occupied
        )
        count = _write_en_passant(file, captors, actions, count)
    return int(count)
