"""The rules of shogi: legal moves and drops, and the position after a move (how a game ends: `game_end`).

Legal moves are generated directly with check masks and pins, as in chess (`games.chess.rules`); no move has
to be made to see whether it was legal. The board is rotated so that the side to move always moves up. So one
generator serves both sides and directly writes policy indices. A pinned piece may only move on the ray from
its king to the pinning piece. In check, only moves and drops remain that capture the checker or interpose.
`actions`, in all functions, is uint16[max_legal]; `count` says how many are written.

A move changes the codes of one or two squares, and a captured or dropped piece changes a hand.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from azselfplay.games.bits import ONE, ZERO, count_trailing_zeros
from azselfplay.games.jit import jit
from azselfplay.games.shogi.attacks import (
    ACTION_OF,
    DIAGONAL,
    DOWN,
    DROP_PLANE,
    GOLD_STEP,
    KNIGHT_STEP,
    ORTHOGONAL,
    PROMOTION,
    PROMOTION_PLANE,
    SILVER_STEP,
    STEPS,
    UP,
    attackers_of,
    bishop_attacks,
    lance_attacks,
    line_to,
    pinned,
    ray_through,
    rook_attacks,
    row,
    safe_steps,
    squares_of,
)
from azselfplay.games.shogi.board import (
    CODE_BITS,
    EVERYWHERE,
    HAND_BITS,
    HAND_SHIFT,
    IN_FIRST_WORD,
    KNIGHT,
    LANCE,
    NOT_LAST_RANK,
    NOT_LAST_TWO_RANKS,
    OWN_LAST_RANK,
    PAWN,
    PLIES_SHIFT,
    PROMOTED,
    ROOK,
    ZONE,
    Board,
    Men,
    code_at,
    contains,
    hand_of,
    in_hand,
    kinds_seen,
    lowest,
    men_of,
    occupied_of,
    overlap,
    sides_seen,
    single,
    some,
    union,
    without,
    without_lowest,
)
from azselfplay.games.spec import Positions, State
from azselfplay.games.stubs import Actions

# ---- Legal moves ---------------------------------------------------------------------------------


MAX_LEGAL = 600
"""593 is the largest number that a position can have."""

_SQUARES = np.uint64(81)
_PROMOTION = np.uint64(PROMOTION)


class Bounds(NamedTuple):
    """Limits on the moves of all pieces except the king."""

    king: np.uint64
    """Its square."""
    pinned: Board
    occupied: Board
    allowed: Board
    """Squares where a piece may go: not onto a piece of its own side and, in check, only where it ends the
    check."""


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
    """Append the moves of a piece that can promote. On the squares `stays` it may also remain unpromoted."""
    targets = _bounded(square, attacked, bounds)
    count = _write_steps(square, overlap(targets, stays), ZERO, actions, count)
    # A piece may promote where it enters the zone, moves in it, or leaves it.
    if not contains(ZONE, square):
        targets = overlap(targets, ZONE)
    return _write_steps(square, targets, _PROMOTION, actions, count)


@jit
def _bounded(square: np.uint64, attacked: Board, bounds: Bounds) -> Board:
    """Return the squares where the piece on `square` may go."""
    targets = overlap(attacked, bounds.allowed)
    if contains(bounds.pinned, square):
        targets = overlap(targets, ray_through(bounds.king, square))
    return targets


@jit
def _stepping_moves(men: Men, bounds: Bounds, actions: Actions, count: np.uint64) -> np.uint64:
    """Append the moves of pawns, knights, silvers and golds. (`STEPS` begins with the rows of pawns.)"""
    left = men.pawns
    while some(left):
        square = lowest(left)
        left = without_lowest(left)
        count = _write(square, row(STEPS, square), NOT_LAST_RANK, bounds, actions, count)
    left = without(men.knights, bounds.pinned)  # a pinned knight can never move: no jump stays on the line
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
def seen_by_mover(state: State) -> tuple[np.uint64, Board, Board, Board, Men, Men]:
    """Return, as the side to move sees the board: that side, all occupied squares, its own, the other side's,
    its own pieces, the other side's."""
    side = state[10] & ONE
    kinds = kinds_seen(state, side)
    occupied = occupied_of(kinds)
    own, foe = sides_seen(state, occupied, side)
    return side, occupied, own, foe, men_of(kinds, own), men_of(kinds, foe)


@jit
def legal_actions(positions: Positions, n: int, actions: Actions) -> int:
    """Write the legal actions of `positions[n - 1]` and return their number (see `games.spec`)."""
    state = positions[n - 1]
    side, occupied, own, foe, men, foes = seen_by_mover(state)
    king = lowest(men.king)
    count = _write_steps(king, safe_steps(king, own, foes, occupied, DOWN), ZERO, actions, ZERO)
    checkers = attackers_of(king, foes, occupied, DOWN)
    goals = EVERYWHERE
    if some(checkers):
        if some(without_lowest(checkers)):  # double check: only the king can move
            return int(count)
        # Between a knight and the king there is no square: then `goals` is the checker alone.
        goals = line_to(king, lowest(checkers))
    bounds = Bounds(king, pinned(king, own, foes, occupied, DOWN), occupied, without(goals, own))
    count = _stepping_moves(men, bounds, actions, count)
    count = _sliding_moves(men, bounds, actions, count)
    hand = hand_of(state, side)
    if hand:
        count = write_drops(hand, men, foes, (own, foe), goals, actions, count)
    return int(count)


# ---- Drops ---------------------------------------------------------------------------------------


_EIGHT = np.uint64(8)

_BEFORE_PAWNS = np.uint64(DROP_PLANE - PAWN)


@jit
def _clear_of(pawns: np.uint64, last_rank: np.uint64) -> np.uint64:
    """Return all squares of the files of one word that have none of `pawns`. No file may have two of them."""
    # Subtracting a pawn borrows from its file's bit of the last rank. So that bit stays set only in files
    # without a pawn. Twice that bit minus the file's lowest bit is the whole file.
    free = (last_rank - pawns) & last_rank
    return (free << ONE) - (free >> _EIGHT)


@jit
def files_clear_of(pawns: Board) -> Board:
    """Return all squares of the files that have none of `pawns`."""
    return _clear_of(pawns[0], OWN_LAST_RANK[0]), _clear_of(pawns[1], OWN_LAST_RANK[1])


@jit
def mates(pawn: np.uint64, men: Men, foes: Men, sides: tuple[Board, Board]) -> bool:
    """Return whether a pawn dropped on the empty square `pawn`, in front of the other side's king, gives
    mate.

    It does if no piece except the king can take it (a pinned one cannot) and the king has no safe step. The
    pawn counts as occupying its square, because it may shield another one from the dropping side's pieces.
    """
    foe = sides[1]
    king = lowest(foes.king)
    occupied = union(union(sides[0], foe), single(pawn))
    takers = attackers_of(pawn, foes, occupied, DOWN)
    if some(without(takers, pinned(king, foe, men, occupied, UP))):
        return False
    return not some(safe_steps(king, foe, men, occupied, UP))


@jit
def write_drops(
    hand: np.uint64,
    men: Men,
    foes: Men,
    sides: tuple[Board, Board],
    goals: Board,
    actions: npt.NDArray[np.uint16],
    count: np.uint64,
) -> np.uint64:
    """Append the drops onto empty squares of `goals`. Returns the new count.

    hand: that of the side to move. sides: its squares and the other side's. actions: uint16[max_legal].
    """
    empty = without(goals, union(sides[0], sides[1]))
    for kind in range(PAWN, ROOK + 1):
        if in_hand(hand, kind):
            targets = empty
            if kind == PAWN:
                # Not on a file with a pawn of the same side, and not if it gives mate.
                targets = overlap(overlap(empty, NOT_LAST_RANK), files_clear_of(men.pawns))
                # If the king is on the rank nearest to the dropping side, there is no square in front of it:
                # the next number belongs to the next file.
                goal = lowest(foes.king) + ONE
                if contains(targets, goal) and goal % np.uint64(9) and mates(goal, men, foes, sides):
                    targets = without(targets, single(goal))
            elif kind == LANCE:
                targets = overlap(empty, NOT_LAST_RANK)
            elif kind == KNIGHT:
                targets = overlap(empty, NOT_LAST_TWO_RANKS)
            first = (_BEFORE_PAWNS + np.uint64(kind)) * _SQUARES
            low, high = targets
            while low:
                actions[count] = first + count_trailing_zeros(low)
                count += ONE
                low &= low - ONE
            first += IN_FIRST_WORD
            while high:
                actions[count] = first + count_trailing_zeros(high)
                count += ONE
                high &= high - ONE
    return count


# ---- The position after a move -------------------------------------------------------------------


_KIND = np.uint64(7)
_WHITE_SHIFT = np.uint64(4)


@jit
def _place(parent: State, cleared: Board, target: np.uint64, code: np.uint64, child: State) -> None:
    """Write the board of `parent` to `child`, with the squares `cleared` emptied and then `code` on
    `target`."""
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
