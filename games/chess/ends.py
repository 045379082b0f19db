"""How a chess game ends: mate, stalemate, repetition, fifty moves, too little material."""

from __future__ import annotations

import numpy as np

from games.bits import ONE, ZERO, count_ones, count_trailing_zeros
from games.chess.attacks import attackers_of
from games.chess.layout import CLOCK_MASK, CLOCK_SHIFT, SAME_POSITION_MASK, turned
from games.jit import jit
from games.spec import NO_ROOT, EndReason, Positions, State

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
"""The same for a game or search that begins where nobody has claimed the draw (FIDE Laws, 9.6.2)."""

_LIGHT_SQUARES = np.uint64(0x55AA55AA55AA55AA)


@jit
def in_check(state: State) -> bool:
    """Whether the king of the side to move is attacked."""
    side = state[8] & ONE
    own = turned(state[np.uint64(6) + side], side)
    other = turned(state[np.uint64(7) - side], side)
    queens = turned(state[4], side)
    checkers = attackers_of(
        count_trailing_zeros(turned(state[5], side) & own),
        turned(state[0], side) & other,
        turned(state[1], side) & other,
        (turned(state[2], side) | queens) & other,
        (turned(state[3], side) | queens) & other,
        own | other,
    )
    return checkers != ZERO


@jit
def maybe_won(positions: Positions, n: int) -> bool:
    """Whether the last move may have won (see `games.spec`): only mate wins, and mate is check."""
    return in_check(positions[n - 1])


@jit
def insufficient_material(state: State) -> bool:
    """Whether no sequence of legal moves can mate: bare kings, one knight, or bishops on squares of one
    colour."""
    if state[0] | state[3] | state[4]:
        return False
    if state[1]:  # with a knight, the kings may have no other company
        return count_ones(state[6] | state[7]) <= np.uint64(3)
    return not (state[2] & _LIGHT_SQUARES and state[2] & ~_LIGHT_SQUARES)


@jit
def same_position(first: State, second: State) -> bool:
    """Whether men, squares, side to move, castling rights and en-passant capture are the same.

    The men of each colour are compared first: between two reversible positions they nearly always differ.
    """
    if first[6] != second[6] or first[7] != second[7]:
        return False
    different = (first[8] ^ second[8]) & SAME_POSITION_MASK
    for piece in range(6):
        different |= first[piece] ^ second[piece]
    return different == ZERO


@jit
def earlier_occurrences(positions: Positions, n: int, enough: int) -> int:
    """How often the position `positions[n - 1]` has occurred before; stops counting at `enough`.

    Looks back only to the last capture or pawn move. A position cannot recur in less than four plies.
    """
    last = n - 1
    clock = int((positions[last, 8] >> CLOCK_SHIFT) & CLOCK_MASK)
    oldest = max(0, last - clock)
    found = 0
    earlier = last - 4
    while earlier >= oldest and found < enough:
        if same_position(positions[earlier], positions[last]):
            found += 1
        earlier -= 2  # with the same side to move
    return found


@jit
def is_draw_by_repetition(positions: Positions, n: int, root: int) -> bool:
    """Whether `positions[n - 1]` has occurred twice before, or once from `positions[root]` on."""
    last = n - 1
    clock = int((positions[last, 8] >> CLOCK_SHIFT) & CLOCK_MASK)
    oldest = max(0, last - clock)
    found = 0
    earlier = last - 4
    while earlier >= oldest:
        if same_position(positions[earlier], positions[last]):
            found += 1
            if found == 2 or (root != NO_ROOT and earlier >= root):
                return True
        earlier -= 2  # with the same side to move
    return False


@jit
def too_many_quiet_moves(positions: Positions, n: int, root: int) -> bool:
    """Whether the game is drawn by fifty moves without capture or pawn move.

    A game or a search may begin where that has already happened, since a draw must be claimed. There only
    seventy-five moves end it, and nothing does where those are exceeded too: otherwise every quiet move would
    have the same value.
    """
    clock = int((positions[n - 1, 8] >> CLOCK_SHIFT) & CLOCK_MASK)
    if clock < FIFTY_MOVES_CLOCK:
        return False
    first = 0 if root == NO_ROOT else root
    at_first = clock - (n - 1 - first)  # its clock, or less if a capture or pawn move came since
    if at_first < FIFTY_MOVES_CLOCK:
        return True
    return clock >= SEVENTY_FIVE_MOVES_CLOCK and at_first < SEVENTY_FIVE_MOVES_CLOCK


@jit
def end_reason(positions: Positions, n: int, legal_count: int, root: int) -> int:
    """`ONGOING`, or why the game is over (see `games.spec`). In a search a first repetition is a draw too, if
    the earlier occurrence is in the searched line: the side that came back to it can do so again."""
    state = positions[n - 1]
    if legal_count == 0:
        return CHECKMATE if in_check(state) else STALEMATE
    if insufficient_material(state):
        return INSUFFICIENT_MATERIAL
    if too_many_quiet_moves(positions, n, root):
        return FIFTY_MOVES
    return THREEFOLD_REPETITION if is_draw_by_repetition(positions, n, root) else 0
