"""The rules of chess: legal moves, the position after a move, and how a game ends.

Legal moves are generated directly with check masks and pins; no move has to be made to see whether it was
legal. The board is flipped so that the side to move always moves up. So one generator serves both colours and
directly writes policy indices. A pinned man may only move along the line through its king. In check, only
moves remain that capture the checker or interpose. En passant, which removes two men from a rank at once, is
tested separately (`board.en_passant_captors`).

Two tricks recur. `bits & (bits - ONE)` clears the lowest set bit, so a loop visits only the set squares of a
bitboard, and the result is 0 exactly if at most one bit was set. And a shift moves all men of a bitboard at
once, by 8 bits for a rank and 1 bit for a file, after masking out the men on the edge that would wrap around.

`actions`, in all functions, is uint16[max_legal]; `count` says how many are written.
"""

from __future__ import annotations

import numpy as np

from azselfplay.games.bits import ONE, ZERO, count_ones, count_trailing_zeros
from azselfplay.games.chess.board import (
    ACTION_OF,
    BETWEEN,
    CASTLING_ROOKS_SHIFT,
    CLOCK_MASK,
    CLOCK_SHIFT,
    EN_PASSANT_MASK,
    EN_PASSANT_SHIFT,
    EVERYWHERE,
    FALLING_THROUGH,
    FILE_THROUGH,
    KING_ATTACKS,
    KNIGHT_ATTACKS,
    NORTH_EAST_ONE,
    NORTH_ONE,
    NORTH_TWO,
    NORTH_WEST_ONE,
    NOT_A_FILE,
    NOT_H_FILE,
    PLANE_SHIFT,
    PLIES_SHIFT,
    RISING_THROUGH,
    SAME_POSITION_MASK,
    THROUGH,
    UNDERPROMOTION_PLANE,
    UPSIDE_DOWN,
    Men,
    all_attacks,
    attackers_of,
    bishop_attacks,
    en_passant_captors,
    pawn_attacks_down,
    rook_attacks,
    seen_by,
)
from azselfplay.games.chess.castling import (
    CASTLES_LONG,
    CASTLES_SHORT,
    FIRST_RANK,
    KEPT_RIGHTS,
    LONG_ROOK,
    SHORT_ROOK,
    finish_960,
    write_castling,
    write_castling_960,
)
from azselfplay.games.jit import jit
from azselfplay.games.spec import NO_ROOT, EndReason, Positions, State
from azselfplay.games.stubs import Actions

# ---- Legal moves ---------------------------------------------------------------------------------


MAX_LEGAL = 256
"""218 is the largest known number in a reachable position. Start positions come from text, so there is room
for unusual ones."""

_SIX, _SEVEN, _EIGHT, _NINE, _SIXTEEN = (np.uint64(number) for number in (6, 7, 8, 9, 16))
_THIRD_RANK = np.uint64(0xFF0000)
_LAST_RANK = np.uint64(0xFF00000000000000)
_UNDERPROMOTION_BASE = np.uint64(UNDERPROMOTION_PLANE * 64)
_UNDERPROMOTION_STEP = np.uint64(3 * 64)


@jit
def _write_targets(square: np.uint64, targets: np.uint64, actions: Actions, count: np.uint64) -> np.uint64:
    """Append the moves of one man. Returns the new count."""
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
    """Append pawn moves of one kind. Each target lies `step` above its origin, and `base` is added to the
    origin to get the action (a plane times 64).

    `side_step` is 0, 1 or 2 for a move to the left, straight on or to the right; it chooses the
    underpromotion planes.
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
def _pinned(king_square: np.uint64, own: np.uint64, sliders: Men, occupied: np.uint64) -> np.uint64:
    """Return those of `own` that stand alone between the king and a sliding piece of `sliders`."""
    # X-ray: remove the king's nearest own men from the board and look again. A slider that is seen only now
    # pins one of them.
    near = own & (bishop_attacks(king_square, occupied) | rook_attacks(king_square, occupied))
    beyond = occupied ^ near
    pinners = bishop_attacks(king_square, beyond) & sliders.diagonal
    pinners |= rook_attacks(king_square, beyond) & sliders.straight
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
    """Append all pawn moves except en passant, with set-wise shifts.

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
def _slider_moves(
    men: Men,
    pinned: np.uint64,
    king_square: np.uint64,
    occupied: np.uint64,
    mask: np.uint64,
    actions: Actions,
    count: np.uint64,
) -> np.uint64:
    """Append the moves of bishops, rooks and queens onto the squares of `mask`."""
    line_row = king_square << _SIX
    diagonal, straight = men.diagonal, men.straight
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
def legal_actions(positions: Positions, n: int, actions: Actions) -> int:
    """Write the legal actions of `positions[n - 1]` and return their number (see `games.spec`)."""
    state = positions[n - 1]
    flags = state[8]
    side = flags & ONE
    own, foe, men, foes = seen_by(state, side)
    occupied = own | foe
    square = count_trailing_zeros(men.king)
    checkers = attackers_of(square, foes, occupied)
    count = ZERO
    steps = KING_ATTACKS[square] & ~own
    # In chess960 a king without steps may still be able to castle: from f1 onto its rook on g1.
    if steps | (flags >> CASTLING_ROOKS_SHIFT):
        # Remove the king from `occupied`: it does not shield the squares behind it.
        danger = all_attacks(foes, occupied ^ men.king)
        count = _write_targets(square, steps & ~danger, actions, count)
        rights = (flags >> (ONE + side + side)) & np.uint64(3)
        # Castling out of check is forbidden; `danger` forbids castling through check.
        if rights and not checkers:
            rooks = (flags >> (CASTLING_ROOKS_SHIFT + _EIGHT * side)) & FIRST_RANK
            if rooks:  # chess960
                count = write_castling_960(square, rooks, occupied, danger, foes.straight, actions, count)
            else:
                count = write_castling(square, rights, occupied, danger, actions, count)
    # In check, all other men may only capture the checker or interpose.
    mask = EVERYWHERE
    if checkers:
        if checkers & (checkers - ONE):  # two at once: only the king can move
            return int(count)
        mask = checkers | BETWEEN[(square << _SIX) + count_trailing_zeros(checkers)]
    pinned = _pinned(square, own, foes, occupied)
    # Remove own men from the mask only after the pawn moves, which need no such mask: pawns capture on `foe`
    # and advance onto empty squares.
    count = _pawn_moves(men.pawns, pinned, square, foe, occupied, mask, actions, count)
    mask &= ~own
    # A pinned knight can never move: none of its jumps stays on the line.
    knights = men.knights & ~pinned
    while knights:
        at = count_trailing_zeros(knights)
        count = _write_targets(at, KNIGHT_ATTACKS[at] & mask, actions, count)
        knights &= knights - ONE
    count = _slider_moves(men, pinned, square, occupied, mask, actions, count)
    en_passant = (flags >> EN_PASSANT_SHIFT) & EN_PASSANT_MASK
    if en_passant:
        file = en_passant - ONE
        captors = en_passant_captors(file, men, foes, occupied)
        while captors:  # at most two
            row = count_trailing_zeros(captors) << _SIX
            actions[count] = ACTION_OF[row + file + np.uint64(40)]  # 40 is a6, where the captor lands
            count += ONE
            captors &= captors - ONE
    return int(count)


# ---- The position after a move -------------------------------------------------------------------


_LAST_SQUARE = np.uint64(63)

_QUEENS = np.uint64(4)
_FIRST_AND_LAST_RANK = np.uint64(0xFF000000000000FF)
_UNDERPROMOTION_PLANE = np.uint64(UNDERPROMOTION_PLANE)


@jit
def en_passant_field(state: State, side: np.uint64, file: np.uint64) -> np.uint64:
    """Return `file + 1` if `side` may legally take en passant on `file`, else 0. Does not read word 8."""
    own, foe, men, foes = seen_by(state, side)
    return file + ONE if en_passant_captors(file, men, foes, own | foe) else ZERO


@jit
def _finish_pawn_move(
    child: State, side: np.uint64, plane: np.uint64, origin: np.uint64, target: np.uint64, took: np.uint64
) -> np.uint64:
    """Finish a pawn move in `child`: promote, or remove a pawn taken en passant. Returns the en-passant field
    after a double step, else 0."""
    reached, foe = ONE << target, np.uint64(7) - side
    if reached & _FIRST_AND_LAST_RANK:
        promoted = _QUEENS
        if plane >= _UNDERPROMOTION_PLANE:
            promoted = ONE + (plane - _UNDERPROMOTION_PLANE) // np.uint64(3)
        child[0] ^= reached
        child[promoted] |= reached
    elif origin ^ target == np.uint64(16):  # only this bit differs between ranks 2 and 4, or 7 and 5
        # Only pawns beside the target can take en passant.
        near = ((reached & NOT_A_FILE) >> ONE) | ((reached & NOT_H_FILE) << ONE)
        if near & child[0] & child[foe]:  # rare, so the slow test of legality is made only here
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
    for piece in range(6):  # branchless: clear both squares, then set `target` to the bit of `origin`
        board = parent[piece]
        child[piece] = (board & ~(left | reached)) | (((board >> origin) & ONE) << target)
    child[_SIX + side] = parent[_SIX + side] ^ left ^ reached
    child[np.uint64(7) - side] = foe ^ took
    en_passant = ZERO
    rooks = flags >> CASTLING_ROOKS_SHIFT  # 0 but in chess960
    if pawn_moved:
        en_passant = _finish_pawn_move(child, side, plane, origin, target, took)
    elif king_moved and not rooks and plane in (CASTLES_SHORT, CASTLES_LONG):
        is_short = plane == CASTLES_SHORT
        rook = SHORT_ROOK << (target - _SIX) if is_short else LONG_ROOK << (target - np.uint64(2))
        child[3] ^= rook  # clears the rook's old square and sets the new one
        child[_SIX + side] ^= rook
    clock = ZERO if took or pawn_moved else ((flags >> CLOCK_SHIFT) & CLOCK_MASK) + ONE
    castling = flags & KEPT_RIGHTS[origin] & KEPT_RIGHTS[target]
    if rooks:
        castling = finish_960(parent, child, side, origin, target)
        flags &= ~(rooks << CASTLING_ROOKS_SHIFT)
    child[8] = (
        (side ^ ONE)
        | castling
        | (en_passant << EN_PASSANT_SHIFT)
        | (clock << CLOCK_SHIFT)
        | (((flags >> PLIES_SHIFT) + ONE) << PLIES_SHIFT)
    )


# ---- How a game ends -----------------------------------------------------------------------------


END_REASONS = (
    EndReason("ongoing", 0),
    EndReason("checkmate", -1),
    EndReason("stalemate", 0),
    EndReason("insufficient_material", 0),
    EndReason("fifty_moves", 0),
    EndReason("threefold_repetition", 0),
)
CHECKMATE, STALEMATE, INSUFFICIENT_MATERIAL, FIFTY_MOVES, THREEFOLD_REPETITION = range(1, 6)

FIFTY_MOVES_CLOCK = 100
"""Half-moves without capture or pawn move that end the game (mate on the last of them wins)."""
SEVENTY_FIVE_MOVES_CLOCK = 150
"""The same limit for a game or search that begins after the fifty moves, when nobody has claimed the draw
(FIDE Laws, 9.6.2)."""

_LIGHT_SQUARES = np.uint64(0x55AA55AA55AA55AA)


@jit
def in_check(state: State) -> bool:
    """Return whether the king of the side to move is attacked."""
    own, foe, men, foes = seen_by(state, state[8] & ONE)
    return attackers_of(count_trailing_zeros(men.king), foes, own | foe) != ZERO


@jit
def maybe_wins(positions: Positions, n: int, actions: Actions, found: Actions) -> int:
    """Write the actions that may win at once (see `games.spec`): those that may give check.

    No move is made. A man gives check from the squares on which a man of its kind would attack the other
    king, or by leaving the line between that king and an own sliding piece. Rare moves that change more
    squares (promotions, castling, en passant) are all written.
    """
    state = positions[n - 1]
    flags = state[8]
    own, foe, men, foes = seen_by(state, flags & ONE)
    occupied = own | foe
    king = count_trailing_zeros(foes.king)
    uncovering = _pinned(king, own, men, occupied)
    from_knight, from_diagonal = KNIGHT_ATTACKS[king], bishop_attacks(king, occupied)
    from_straight = rook_attacks(king, occupied)
    from_pawn = pawn_attacks_down(ONE << king) | _LAST_RANK
    en_passant = (flags >> EN_PASSANT_SHIFT) & EN_PASSANT_MASK
    if en_passant:
        from_pawn |= ONE << (en_passant + np.uint64(39))  # where the captor lands, from a6 on
    count = ZERO
    for action in actions:
        move = np.uint64(action)
        origin = move & _LAST_SQUARE
        left = ONE << origin
        squares = ZERO
        if left & uncovering:
            squares = EVERYWHERE
        elif left & men.king:  # castling: two steps, in chess960 onto the own rook
            squares = own | ~KING_ATTACKS[origin]
        elif left & men.pawns:
            squares = from_pawn
        elif left & men.knights:
            squares = from_knight
        else:
            if left & men.diagonal:
                squares |= from_diagonal
            if left & men.straight:
                squares |= from_straight
        if (squares >> ((origin + PLANE_SHIFT[move >> _SIX]) & _LAST_SQUARE)) & ONE:
            found[count] = action
            count += ONE
    return int(count)


@jit
def insufficient_material(state: State) -> bool:
    """Return whether no sequence of legal moves can mate: bare kings, one knight, or bishops on squares of
    one colour."""
    if state[0] | state[3] | state[4]:
        return False
    if state[1]:  # a knight must be the only man besides the kings
        return count_ones(state[6] | state[7]) <= np.uint64(3)
    return not (state[2] & _LIGHT_SQUARES and state[2] & ~_LIGHT_SQUARES)


@jit
def same_position(first: State, second: State) -> bool:
    """Return whether men, squares, side to move, castling rights and en-passant capture are the same.

    The men of each colour are compared first: in different positions they nearly always differ.
    """
    if first[6] != second[6] or first[7] != second[7]:
        return False
    different = (first[8] ^ second[8]) & SAME_POSITION_MASK
    for piece in range(6):
        different |= first[piece] ^ second[piece]
    return different == ZERO


@jit
def earlier_occurrences(positions: Positions, n: int, root: int) -> int:
    """Return how often the position `positions[n - 1]` has occurred before, at most 2. An occurrence since
    `positions[root]` counts twice, because a search ends at the first repetition within its line.

    The search goes back only to the last capture or pawn move. A position cannot recur in less than four
    plies.
    """
    last = n - 1
    clock = int((positions[last, 8] >> CLOCK_SHIFT) & CLOCK_MASK)
    oldest = max(0, last - clock)
    found = 0
    earlier = last - 4
    while earlier >= oldest and found < 2:
        if same_position(positions[earlier], positions[last]):
            found += 2 if root != NO_ROOT and earlier >= root else 1
        earlier -= 2  # with the same side to move
    return found


@jit
def too_many_quiet_moves(positions: Positions, n: int, root: int) -> bool:
    """Return whether the game is drawn by fifty moves without capture or pawn move.

    A game or a search may begin after fifty such moves, because a draw must be claimed. In that case only
    seventy-five moves end it. If it begins after even those, the rule never ends it: otherwise every quiet
    move would have the same value.
    """
    clock = int((positions[n - 1, 8] >> CLOCK_SHIFT) & CLOCK_MASK)
    if clock < FIFTY_MOVES_CLOCK:
        return False
    first = 0 if root == NO_ROOT else root
    at_first = clock - (n - 1 - first)  # the clock at `first`, or less if a capture or pawn move came since
    if at_first < FIFTY_MOVES_CLOCK:
        return True
    return clock >= SEVENTY_FIVE_MOVES_CLOCK and at_first < SEVENTY_FIVE_MOVES_CLOCK


@jit
def end_reason(positions: Positions, n: int, legal_count: int, root: int) -> int:
    """Return `ONGOING`, or why the game is over (see `games.spec`). In a search the first repetition is
    already a draw if the earlier occurrence is in the searched line: the side that came back to it can do so
    again."""
    state = positions[n - 1]
    if legal_count == 0:
        return CHECKMATE if in_check(state) else STALEMATE
    if insufficient_material(state):
        return INSUFFICIENT_MATERIAL
    if too_many_quiet_moves(positions, n, root):
        return FIFTY_MOVES
    return THREEFOLD_REPETITION if earlier_occurrences(positions, n, root) == 2 else 0
