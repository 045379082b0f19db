"""What a sparse network reads of a chess position: only what the rules say about who attacks what.

A feature is a man on its square, and whether the other side attacks it and its own side defends it (3,072 of
them, about 26 active), a castling right, or that the position stood on the board before. An action has three
rows: itself; its piece and target; and what happens there: the piece, what it captures, whether the target
and the origin are attacked, by a pawn too, and whether the piece gives check from its target.

No value of a piece and no exchange is in it. Threat features of this kind are used by Monty and Jackal.
"""

from __future__ import annotations

import numpy as np

from games.bits import ONE, ZERO, count_trailing_zeros
from games.chess.actions import ACTIONS, PLANE_SHIFT
from games.chess.attacks import (
    KING_ATTACKS,
    KNIGHT_ATTACKS,
    NOT_A_FILE,
    NOT_H_FILE,
    all_attacks,
    bishop_attacks,
    pawn_attacks_down,
    rook_attacks,
)
from games.chess.encoding import PLANES_PER_POSITION
from games.jit import jit, signed
from games.scratch import scratch_int32
from games.spec import SparseFeatures
from games.stubs import Actions, Numbers, Words

MEN = 12 * 64 * 4
"""Features of men: kind, square, and 2 for attacked plus 1 for defended."""
CASTLING, REPEATED = MEN, MEN + 4
FEATURES = MEN + 5
MOST_ACTIVE = 64 + 5
"""A position that was set up by hand may have a man on every square."""

PIECE_TARGETS = ACTIONS
TACTICS = PIECE_TARGETS + 6 * 64
ACTION_ROWS = TACTICS + 6 * 7 * 16
TABLES = 3

SQUARES = 64
_NOBODY, _KING = 12, 5
_SIX, _SEVEN, _NINE, _SQUARE = np.uint64(6), np.uint64(7), np.uint64(9), np.uint64(63)


@jit
def _own_attacks(men: Words, occupied: np.uint64) -> np.uint64:
    """All squares that the side to move attacks; `men` are its six boards."""
    pawns, knights, king = men[0], men[1], men[5]
    attacked = ((pawns & NOT_H_FILE) << _NINE) | ((pawns & NOT_A_FILE) << _SEVEN)
    diagonal, straight = men[2] | men[4], men[3] | men[4]
    if king != ZERO:
        attacked |= KING_ATTACKS[count_trailing_zeros(king)]
    while knights:
        attacked |= KNIGHT_ATTACKS[count_trailing_zeros(knights)]
        knights &= knights - ONE
    while diagonal:
        attacked |= bishop_attacks(count_trailing_zeros(diagonal), occupied)
        diagonal &= diagonal - ONE
    while straight:
        attacked |= rook_attacks(count_trailing_zeros(straight), occupied)
        straight &= straight - ONE
    return attacked


@jit
def _is_in(board: np.uint64, square: np.uint64) -> int:
    return signed((board >> square) & ONE)


@jit
def describe(
    packed_features: Words, history: int, actions: Actions, count: int, active: Numbers, rows: Numbers
) -> int:
    """Write the active features of a position and the rows of its legal actions (`games.spec`)."""
    own, other = packed_features[0:6], packed_features[6:12]
    occupied = ZERO
    for kind in range(12):
        occupied |= packed_features[kind]
    king = other[5] if other[5] != ZERO else ONE
    attacked = all_attacks(other[0], other[1], other[2] | other[4], other[3] | other[4], king, occupied)
    by_pawns = pawn_attacks_down(other[0])
    defended = _own_attacks(own, occupied)

    man_on = scratch_int32(SQUARES)
    for square in range(64):
        man_on[square] = _NOBODY
    found = 0
    for kind in range(12):
        men = packed_features[kind]
        hit, held = (attacked, defended) if kind < 6 else (defended, attacked)
        while men and found < SQUARES:  # the features may come from another machine, and be any bits
            at = count_trailing_zeros(men)
            men &= men - ONE
            man_on[signed(at)] = kind
            active[found] = (kind * 64 + signed(at)) * 4 + 2 * _is_in(hit, at) + _is_in(held, at)
            found += 1
    rights = PLANES_PER_POSITION * history + 2
    for right in range(4):
        if packed_features[rights + right] != ZERO:
            active[found] = CASTLING + right
            found += 1
    if packed_features[12] != ZERO:
        active[found] = REPEATED
        found += 1

    at = count_trailing_zeros(king)
    diagonals, lines, jumps = bishop_attacks(at, occupied), rook_attacks(at, occupied), KNIGHT_ATTACKS[at]
    for i in range(count):
        action = np.uint64(actions[i])
        origin = action & _SQUARE
        target = (origin + PLANE_SHIFT[action >> _SIX]) & _SQUARE
        piece = min(signed(man_on[signed(origin)]), _KING)  # always an own man, if the action is legal
        captured = signed(man_on[signed(target)]) - 6
        if captured < 0 or captured > 5:
            captured = 6
        checks = ZERO
        if piece == 0:
            checks = pawn_attacks_down(king)
        elif piece == 1:
            checks = jumps
        elif piece == 2:
            checks = diagonals
        elif piece == 3:
            checks = lines
        elif piece == 4:
            checks = diagonals | lines
        state = 8 * _is_in(attacked, target) + 4 * _is_in(by_pawns, target) + 2 * _is_in(attacked, origin)
        state += _is_in(checks, target)
        rows[3 * i] = signed(action)
        rows[3 * i + 1] = PIECE_TARGETS + piece * 64 + signed(target)
        rows[3 * i + 2] = TACTICS + (piece * 7 + captured) * 16 + state
    return found


def _shared() -> np.ndarray:
    """[features, 1]: a man on its square, whoever attacks it."""
    shared = np.full((FEATURES, 1), -1, np.int32)
    shared[:MEN, 0] = np.arange(MEN) // 4
    return shared


SPARSE = SparseFeatures(
    name="chess-attacks-1",
    features=FEATURES,
    most_active=MOST_ACTIVE,
    tables=TABLES,
    action_rows=ACTION_ROWS,
    describe=describe,
    shared=_shared(),
)
