"""How a shogi game ends: no legal move, fourfold repetition, perpetual check, declaration.

A position that stands on the board for the fourth time (the same board, hands and side to move) ends the
game. If from its first occurrence on every move of one side gave check, that side loses; if that is true of
both sides or of neither, the game is drawn. The fourth occurrence may come after a move of either side.

By declaration (the 27-point rule, a setting) the side to move wins when its king stands in the promotion
zone and not in check, ten other pieces of its own stand there too, and these and its hand make 28 points
for Black or 27 for White: five for each rook and bishop, promoted or not, one for any other piece.
"""

from __future__ import annotations

from games.bits import ONE, ZERO, count_ones
from games.jit import jit
from games.shogi.attacks import DOWN, UP, attackers_of, has_safe_step
from games.shogi.boards import ZONE, Board, lowest, overlap, some, union
from games.shogi.layout import (
    BISHOP,
    HAND_SHIFT,
    LANCE,
    PAWN,
    ROOK,
    SAME_POSITION_MASK,
    hand_of,
    in_hand,
    kinds_seen,
    men_of,
    occupied_of,
    sides_seen,
)
from games.spec import NO_ROOT, EndReason, Positions, State

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
"""Occurrences of a position, the last of which ends the game."""
DECLARATION_PIECES = 10
DECLARATION_POINTS = 28
"""Points that Black needs; White needs one less."""
_FOUR = 4


@jit
def in_check(state: State) -> bool:
    """Whether the king of the side to move is attacked."""
    side = state[10] & ONE
    kinds = kinds_seen(state, ZERO)
    occupied = occupied_of(kinds)
    black, white = sides_seen(state, occupied, ZERO)
    own, foe = (white, black) if side else (black, white)
    king = lowest(overlap(men_of(kinds, own).king, own))
    return some(attackers_of(king, men_of(kinds, foe), occupied, UP if side else DOWN))


@jit
def same_position(first: State, second: State) -> bool:
    """Whether pieces, squares, hands and side to move are the same.

    White's squares are compared first: between two positions of a game they nearly always differ.
    """
    if first[8] != second[8] or first[9] != second[9]:
        return False
    different = (first[10] ^ second[10]) & SAME_POSITION_MASK
    for word in range(8):
        different |= first[word] ^ second[word]
    return different == ZERO


@jit
def occurrence_before(positions: Positions, last: int, before: int) -> int:
    """The newest position before `before` that equals the position `last`, -1 if there is none.

    The whole game is read, because drops undo captures. `before - last` is even.
    """
    earlier = before - 2
    while earlier >= 0:
        if same_position(positions[earlier], positions[last]):
            return earlier
        earlier -= 2  # with the same side to move
    return -1


@jit
def _always_in_check(positions: Positions, last: int, first: int) -> bool:
    """Whether the side to move is in check at `last`, `last - 2` and so on, `first` not included."""
    while last > first:
        if not in_check(positions[last]):
            return False
        last -= 2
    return True


@jit
def _repetition(positions: Positions, n: int, root: int) -> int:
    """`ONGOING`, or how the game ends when the last position has occurred three times before, or once from
    `positions[root]` on."""
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
    suffered = _always_in_check(positions, last, first)
    given = _always_in_check(positions, last - 1, first)
    if given == suffered:
        return REPETITION
    return PERPETUAL_CHECK_GIVEN if given else PERPETUAL_CHECK_SUFFERED


@jit
def end_reason(positions: Positions, n: int, legal_count: int, root: int) -> int:
    """`ONGOING`, or why the game is over (see `games.spec`). In a search a first repetition ends it too, if
    the earlier occurrence is in the searched line."""
    if legal_count == 0:
        return MATE
    return _repetition(positions, n, root)


@jit
def maybe_won(positions: Positions, n: int) -> bool:
    """Whether the last move may have won (see `games.spec`): by mate, or by ending a perpetual check.

    Without check, a side may be out of moves only if its king cannot step and it has nothing but pawns in
    hand: at least 41 squares are empty, and even a knight may be dropped on 23 of them.
    """
    state = positions[n - 1]
    side = state[10] & ONE
    kinds = kinds_seen(state, side)
    occupied = occupied_of(kinds)
    own, foe = sides_seen(state, occupied, side)
    king, foes = lowest(overlap(men_of(kinds, own).king, own)), men_of(kinds, foe)
    if some(attackers_of(king, foes, occupied, DOWN)):
        return True
    if hand_of(state, side) >> HAND_SHIFT[LANCE] == ZERO and not has_safe_step(
        king, own, foes, occupied, DOWN
    ):
        return True
    return in_check(positions[n - 2]) and occurrence_before(positions, n - 1, n - 1) >= 0


@jit
def _squares_in(board: Board) -> int:
    return int(count_ones(board[0]) + count_ones(board[1]))


@jit
def can_declare(state: State) -> bool:
    """Whether the side to move may declare that it has won."""
    side = state[10] & ONE
    kinds = kinds_seen(state, side)
    own, _ = sides_seen(state, occupied_of(kinds), side)
    inside = men_of(kinds, overlap(own, ZONE))
    pieces = _squares_in(overlap(own, ZONE)) - 1
    if not some(inside.king) or pieces < DECLARATION_PIECES or in_check(state):
        return False
    points = pieces + _FOUR * _squares_in(union(inside.diagonal, inside.straight))
    hand = hand_of(state, side)
    for kind in range(PAWN, ROOK + 1):
        points += int(in_hand(hand, kind)) * (5 if kind >= BISHOP else 1)
    return points >= DECLARATION_POINTS - int(side)


@jit
def end_reason_with_declaration(positions: Positions, n: int, legal_count: int, root: int) -> int:
    """Like `end_reason`; in addition the side to move declares that it has won as soon as it may."""
    reason = end_reason(positions, n, legal_count, root)
    if reason == 0 and can_declare(positions[n - 1]):
        return DECLARATION
    return reason
