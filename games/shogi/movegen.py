"""Legal moves, by check mask and pins, as in chess (`games.chess.movegen`): no move is made to see whether it
was legal.

The board is turned so that the side to move always moves up; so one generator serves both sides and directly
writes policy indices. A pinned piece may only move on the ray from its king to the pinning piece. In check,
only moves and drops that take the checker or come between it and the king remain.

`actions`, in all functions, is uint16[max_legal]; `count` says how many are written.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from games.bits import ONE, ZERO, count_trailing_zeros
from games.jit import jit
from games.shogi.actions import ACTION_OF, PROMOTION
from games.shogi.attacks import (
    DIAGONAL,
    DOWN,
    GOLD_STEP,
    KNIGHT_STEP,
    ORTHOGONAL,
    SILVER_STEP,
    STEPS,
    attackers_of,
    bishop_attacks,
    lance_attacks,
    line_to,
    pinned,
    ray_through,
    rook_attacks,
    row,
    safe_steps,
)
from games.shogi.boards import (
    EVERYWHERE,
    IN_FIRST_WORD,
    NOT_LAST_RANK,
    NOT_LAST_TWO_RANKS,
    ZONE,
    Board,
    contains,
    lowest,
    overlap,
    some,
    union,
    without,
    without_lowest,
)
from games.shogi.drops import write_drops
from games.shogi.layout import Men, hand_of, kinds_seen, men_of, occupied_of, sides_seen
from games.spec import Positions

Actions = npt.NDArray[np.uint16]

MAX_LEGAL = 600
"""593 is the largest number that a position can have."""

_SQUARES = np.uint64(81)
_PROMOTION = np.uint64(PROMOTION)


class Bounds(NamedTuple):
    """What limits the moves of all pieces except the king."""

    king: np.uint64
    """Its square."""
    pinned: Board
    occupied: Board
    allowed: Board
    """Where a piece may go: not onto a piece of its own side and, in check, only where it ends the check."""


@jit
def _write_steps(
    square: np.uint64, targets: Board, added: np.uint64, actions: Actions, count: np.uint64
) -> np.uint64:
    """Append the moves from `square`; `added` is 0 or `PROMOTION`. Returns the new count."""
    first = square * _SQUARES
    low, high = targets
    while low:
        actions[count] = ACTION_OF[first + count_trailing_zeros(low)] + added
        count += ONE
        low &= low - ONE
    first += IN_FIRST_WORD
    while high:
        actions[count] = ACTION_OF[first + count_trailing_zeros(high)] + added
        count += ONE
        high &= high - ONE
    return count


@jit
def _write(
    square: np.uint64, attacked: Board, stays: Board, bounds: Bounds, actions: Actions, count: np.uint64
) -> np.uint64:
    """Append the moves of a piece that may promote; on the squares `stays` it may also remain unpromoted."""
    targets = _bounded(square, attacked, bounds)
    count = _write_steps(square, overlap(targets, stays), ZERO, actions, count)
    if not contains(ZONE, square):
        targets = overlap(targets, ZONE)
    return _write_steps(square, targets, _PROMOTION, actions, count)


@jit
def _bounded(square: np.uint64, attacked: Board, bounds: Bounds) -> Board:
    """Where the piece on `square` may go."""
    targets = overlap(attacked, bounds.allowed)
    if contains(bounds.pinned, square):
        targets = overlap(targets, ray_through(bounds.king, square))
    return targets


@jit
def _pawn_moves(pawns: Board, bounds: Bounds, actions: Actions, count: np.uint64) -> np.uint64:
    """Append all pawn moves: one bit down is forward."""
    while some(pawns):
        square = lowest(pawns)
        pawns = without_lowest(pawns)
        count = _write(square, row(STEPS, square), NOT_LAST_RANK, bounds, actions, count)
    return count


@jit
def _stepping_moves(men: Men, bounds: Bounds, actions: Actions, count: np.uint64) -> np.uint64:
    """Append the moves of knights, silvers and golds."""
    left = without(men.knights, bounds.pinned)  # a pinned knight can never stay on the line
    while some(left):
        square = lowest(left)
        left = without_lowest(left)
        jumps = row(STEPS, KNIGHT_STEP + square)
        count = _write(square, jumps, NOT_LAST_TWO_RANKS, bounds, actions, count)
    left = men.silvers
    while some(left):
        square = lowest(left)
        left = without_lowest(left)
        count = _write(square, row(STEPS, SILVER_STEP + square), EVERYWHERE, bounds, actions, count)
    left = men.golds
    while some(left):
        square = lowest(left)
        left = without_lowest(left)
        targets = _bounded(square, row(STEPS, GOLD_STEP + square), bounds)
        count = _write_steps(square, targets, ZERO, actions, count)
    return count


@jit
def _sliding_moves(men: Men, bounds: Bounds, actions: Actions, count: np.uint64) -> np.uint64:
    """Append the moves of lances, bishops, horses, rooks and dragons."""
    left = men.lances
    while some(left):
        square = lowest(left)
        left = without_lowest(left)
        attacked = lance_attacks(square, bounds.occupied)
        count = _write(square, attacked, NOT_LAST_RANK, bounds, actions, count)
    left = union(men.diagonal, men.straight)
    while some(left):
        square = lowest(left)
        left = without_lowest(left)
        if contains(men.diagonal, square):
            attacked, more = bishop_attacks(square, bounds.occupied), row(ORTHOGONAL, square)
        else:
            attacked, more = rook_attacks(square, bounds.occupied), row(DIAGONAL, square)
        if contains(union(men.horses, men.dragons), square):
            targets = _bounded(square, union(attacked, more), bounds)
            count = _write_steps(square, targets, ZERO, actions, count)
        else:
            count = _write(square, attacked, EVERYWHERE, bounds, actions, count)
    return count


@jit
def legal_actions(positions: Positions, n: int, actions: Actions) -> int:
    """Write the legal actions of `positions[n - 1]` and return their number (see `games.spec`)."""
    state = positions[n - 1]
    side = state[10] & ONE
    kinds = kinds_seen(state, side)
    occupied = occupied_of(kinds)
    own, foe = sides_seen(state, occupied, side)
    men, foes = men_of(kinds, own), men_of(kinds, foe)
    king = lowest(men.king)
    count = _write_steps(king, safe_steps(king, own, foes, occupied, DOWN), ZERO, actions, ZERO)
    checkers = attackers_of(king, foes, occupied, DOWN)
    goals = EVERYWHERE
    if some(checkers):
        if some(without_lowest(checkers)):  # two at once: only the king can move
            return int(count)
        goals = line_to(king, lowest(checkers))
    bounds = Bounds(king, pinned(king, own, foes, occupied, DOWN), occupied, without(goals, own))
    count = _pawn_moves(men.pawns, bounds, actions, count)
    count = _stepping_moves(men, bounds, actions, count)
    count = _sliding_moves(men, bounds, actions, count)
    hand = hand_of(state, side)
    if hand:
        count = write_drops(hand, men, foes, (own, foe), goals, actions, count)
    return int(count)
