"""How a game of shogi ends, and which moves may end it at once.

The game ends when a position occurs for the fourth time (the same board, hands and side to move). If every
move of one side since the first occurrence gave check, that side loses. If that is true of both sides or of
neither, the game is drawn. The fourth occurrence may come after a move of either side.

By declaration (the 27-point rule, a variant) the side to move wins if its king stands in the promotion zone
and is not in check, at least ten other pieces of its own stand there too, and these and its hand are worth at
least 28 points for Black or 27 for White: five for each rook and bishop, promoted or not, one for any other
piece.
"""

from __future__ import annotations

import numpy as np

from azselfplay.games.bits import ONE, ZERO, count_ones
from azselfplay.games.jit import jit
from azselfplay.games.shogi.attacks import (
    DOWN,
    DROP_PLANE,
    PLANE_SHIFT,
    PROMOTION_PLANE,
    UP,
    attackers_of,
    attacking_squares,
    bishop_attacks,
    pinned,
    rook_attacks,
    safe_steps,
)
from azselfplay.games.shogi.board import (
    BISHOP,
    EMPTY,
    HAND_SHIFT,
    LANCE,
    PAWN,
    PROMOTED,
    ROOK,
    SAME_POSITION_MASK,
    ZONE,
    Board,
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
    some,
    turned_square,
    union,
    without,
    without_lowest,
)
from azselfplay.games.shogi.rules import play, seen_by_mover
from azselfplay.games.spec import NO_ROOT, EndReason, Positions, State
from azselfplay.games.stubs import Actions

END_REASONS = (
    EndReason("ongoing", 0),
    EndReason("mate", -1),
    EndReason("repetition", 0),
    EndReason("perpetual_check_given", -1),
    EndReason("perpetual_check_suffered", 1),
    EndReason("declaration", 1),
)
MATE, REPETITION, PERPETUAL_CHECK_GIVEN, PERPETUAL_CHECK_SUFFERED, DECLARATION = range(1, 6)

OCCURRENCES = 4
"""The game ends when a position occurs this many times."""
DECLARATION_PIECES = 10
DECLARATION_POINTS = 28
"""Points that Black needs; White needs one less."""
_FOUR = 4
_SQUARES = np.uint64(81)
_ANY_KIND, _KIND_AND_PROMOTED = np.uint64(16), np.uint64(15)


@jit
def in_check(state: State) -> bool:
    """Return whether the king of the side to move is attacked."""
    side = state[10] & ONE
    kinds = kinds_seen(state, ZERO)
    occupied = occupied_of(kinds)
    black, white = sides_seen(state, occupied, ZERO)
    own, foe = (white, black) if side else (black, white)
    king = lowest(overlap(men_of(kinds, own).king, own))
    return some(attackers_of(king, men_of(kinds, foe), occupied, UP if side else DOWN))


@jit
def same_position(first: State, second: State) -> bool:
    """Return whether pieces, squares, hands and side to move are the same.

    White's squares are compared first: in two positions of a game they nearly always differ.
    """
    if first[8] != second[8] or first[9] != second[9]:
        return False
    different = (first[10] ^ second[10]) & SAME_POSITION_MASK
    for word in range(8):
        different |= first[word] ^ second[word]
    return different == ZERO


@jit
def occurrence_before(positions: Positions, last: int, before: int) -> int:
    """Return the newest position before `before` that equals the position `last`; -1 if there is none.

    The search goes back to the start of the game, because drops can undo captures. `before - last` is even.
    """
    earlier = before - 2
    while earlier >= 0:
        if same_position(positions[earlier], positions[last]):
            return earlier
        earlier -= 2  # with the same side to move
    return -1


@jit
def _always_in_check(positions: Positions, last: int, first: int) -> bool:
    """Return whether the side to move is in check at `last`, `last - 2` and so on, excluding `first`."""
    while last > first:
        if not in_check(positions[last]):
            return False
        last -= 2
    return True


@jit
def end_reason(positions: Positions, n: int, legal_count: int, root: int) -> int:
    """Return `ONGOING`, or why the game is over (see `games.spec`). In a search the first repetition already
    ends the game if the earlier occurrence is in the searched line."""
    if legal_count == 0:
        return MATE
    # By the rules the game ends if the position has occurred three times before.
    last = n - 1
    first = newest = occurrence_before(positions, last, last)
    found = 1
    while first >= 0 and found < OCCURRENCES - 1:
        first = occurrence_before(positions, last, first)
        found += 1
    if first < 0:  # not by the rules, but perhaps in the searched line
        if root == NO_ROOT or newest < root:
            return 0
        first = newest
    # `suffered`: the side to move was in check at all its turns. `given`: the other side was, at the plies
    # between.
    suffered = _always_in_check(positions, last, first)
    given = _always_in_check(positions, last - 1, first)
    # Both or neither.
    if given == suffered:
        return REPETITION
    return PERPETUAL_CHECK_GIVEN if given else PERPETUAL_CHECK_SUFFERED


@jit
def maybe_wins(positions: Positions, n: int, actions: Actions, found: Actions) -> int:
    """Write the actions that may win at once (see `games.spec`): usually those that may give check, which
    takes no move to find out. A piece gives check from the squares on which its kind would attack the other
    king, or by leaving the line between that king and an own sliding piece.

    Two other ways to win need the moves to be made (`_may_have_won`). They are ruled out for all moves if the
    side to move is not in check, and the other side certainly has a move left: a piece in hand that is no
    pawn, or two pawns that can advance and never be pinned, of which a move can capture one.
    """
    state = positions[n - 1]
    side, occupied, own, foe, men, foes = seen_by_mover(state)
    king, count = lowest(foes.king), ZERO
    blocked = (foe[0] >> ONE, foe[1] >> ONE)  # their pawns advance by one bit up
    lines = union(bishop_attacks(king, EMPTY), rook_attacks(king, EMPTY))
    free = without(without(foes.pawns, blocked), lines)
    has_move = hand_of(state, side ^ ONE) >> HAND_SHIFT[LANCE] != ZERO or some(without_lowest(free))
    if not has_move or some(attackers_of(lowest(men.king), foes, occupied, DOWN)):
        for action in actions:
            play(state, action, positions[n])
            if _may_have_won(positions, n + 1):
                found[count] = action
                count += ONE
        return int(count)
    uncovering = pinned(king, own, men, occupied, UP)
    straight, diagonal = rook_attacks(king, occupied), bishop_attacks(king, occupied)
    for action in actions:
        plane, square = np.uint64(action) // _SQUARES, np.uint64(action) % _SQUARES
        target = np.uint64(np.int64(square) + PLANE_SHIFT[plane])
        if plane >= np.uint64(DROP_PLANE):
            kind = plane - np.uint64(DROP_PLANE - PAWN)
        elif contains(uncovering, square):
            kind = _ANY_KIND
        else:
            kind = code_at(state, turned_square(square, side)) & _KIND_AND_PROMOTED
            if plane >= np.uint64(PROMOTION_PLANE):
                kind |= np.uint64(PROMOTED)
        if kind == _ANY_KIND or contains(attacking_squares(king, kind, straight, diagonal), target):
            found[count] = action
            count += ONE
    return int(count)


@jit
def _may_have_won(positions: Positions, n: int) -> bool:
    """Return whether the last move may have won: by mate, or by a repetition after perpetual check.

    Without check, a side can be out of moves only if its king cannot step and it has nothing but pawns in
    hand. Any other piece could be dropped: at least 41 squares are empty, and even a knight may be dropped on
    at least 23 of them.
    """
    state = positions[n - 1]
    side, occupied, own, _, men, foes = seen_by_mover(state)
    king = lowest(men.king)
    if some(attackers_of(king, foes, occupied, DOWN)):
        return True
    has_pawns_only = hand_of(state, side) >> HAND_SHIFT[LANCE] == ZERO
    if has_pawns_only and not some(safe_steps(king, own, foes, occupied, DOWN)):
        return True
    return in_check(positions[n - 2]) and occurrence_before(positions, n - 1, n - 1) >= 0


@jit
def _squares_in(board: Board) -> int:
    return int(count_ones(board[0]) + count_ones(board[1]))


@jit
def can_declare(state: State) -> bool:
    """Return whether the side to move may declare that it has won."""
    side = state[10] & ONE
    kinds = kinds_seen(state, side)
    own, _ = sides_seen(state, occupied_of(kinds), side)
    inside = men_of(kinds, overlap(own, ZONE))
    # Without the king.
    pieces = _squares_in(overlap(own, ZONE)) - 1
    if not some(inside.king) or pieces < DECLARATION_PIECES or in_check(state):
        return False
    # Rooks and bishops count five points, and one is already counted in `pieces`.
    points = pieces + _FOUR * _squares_in(union(inside.diagonal, inside.straight))
    hand = hand_of(state, side)
    for kind in range(PAWN, ROOK + 1):
        points += int(in_hand(hand, kind)) * (5 if kind >= BISHOP else 1)
    return points >= DECLARATION_POINTS - int(side)


@jit
def end_reason_with_declaration(positions: Positions, n: int, legal_count: int, root: int) -> int:
    """Return the `end_reason`; in addition, the side to move declares that it has won as soon as it may."""
    reason = end_reason(positions, n, legal_count, root)
    if reason == 0 and can_declare(positions[n - 1]):
        return DECLARATION
    return reason
