"""The input of networks for chess: AlphaZero's input planes, packed, and the features of sparse networks.

Planes (Silver et al. 2018, supplement, table S1). For each of the newest `history` positions, newest first,
14 bit planes, all seen by the side that is to move NOW (ranks flipped for Black): 6 of its men (pawn, knight,
bishop, rook, queen, king), 6 of the opponent's, then "stood on the board before" and "at least twice before"
(all ones or all zeros). Then seven numbers: side to move (1 = Black), half-moves played / 512 (at most 1),
the own rights to castle short and long, the opponent's rights to castle short and long, half-moves since the
last capture or pawn move / 100 (at most 1).

Sparse features only express what attacks what by the rules. A feature is a man on its square, with whether
the other side attacks it and whether its own side defends it (3,072 features, about 26 active); or a castling
right; or that the position stood on the board before. An action has three rows. The first is for the action
itself, the second for its piece and target. The third describes the move: the piece, what it captures, and
whether the origin is in danger. If the move gives no check, the third row also says what the weakest attacker
of the target is and whether own men defend the target; if it gives check, whether the piece can be taken, the
king can flee, or a man can interpose. No piece value and no exchange value is used. Threat features of this
kind are used by Monty and Jackal.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from azselfplay.games.bits import ONE, ZERO, count_trailing_zeros, float_as_word, scratch_int32
from azselfplay.games.chess.board import (
    ACTIONS,
    CLOCK_MASK,
    CLOCK_SHIFT,
    EVERYWHERE,
    KING_ATTACKS,
    KNIGHT_ATTACKS,
    PLANE_SHIFT,
    PLIES_MASK,
    PLIES_SHIFT,
    Men,
    all_attacks,
    attackers_of,
    bishop_attacks,
    pawn_attacks_down,
    pawn_attacks_up,
    piece_attacks,
    rook_attacks,
    turned,
)
from azselfplay.games.chess.rules import earlier_occurrences
from azselfplay.games.jit import jit, signed
from azselfplay.games.spec import NO_ROOT, Positions, SparseFeatures
from azselfplay.games.stubs import Actions, Numbers, Words

# ---- Planes --------------------------------------------------------------------------------------


PLANES_PER_POSITION = 14
SCALAR_PLANES = 7

_PLIES_SCALE = np.float32(512)
_CLOCK_SCALE = np.float32(100)
_FULL = np.float32(1)


@jit
def _share(count: np.uint64, scale: np.float32) -> np.uint64:
    return float_as_word(min(np.float32(count) / scale, _FULL))


@jit
def encode(positions: Positions, n: int, history: int, packed_features: npt.NDArray[np.uint64]) -> None:
    """Write the packed features of `positions[n - 1]` with `history` positions (see `games.spec`).

    packed_features  [14 * history + 7]
    """
    flags = positions[n - 1, 8]
    side = flags & ONE
    at = 0
    for position in range(n - 1, n - 1 - history, -1):
        if position < 0:
            packed_features[at : at + PLANES_PER_POSITION] = ZERO
        else:
            # All positions are flipped for the side that is to move now, as in AlphaZero.
            own = turned(positions[position, np.uint64(6) + side], side)
            other = turned(positions[position, np.uint64(7) - side], side)
            for piece in range(6):
                board = turned(positions[position, piece], side)
                packed_features[at + piece] = board & own
                packed_features[at + 6 + piece] = board & other
            earlier = earlier_occurrences(positions, position + 1, NO_ROOT)
            # Fill the whole plane, so that a convolution sees it on every square.
            packed_features[at + 12] = EVERYWHERE if earlier >= 1 else ZERO
            packed_features[at + 13] = EVERYWHERE if earlier >= 2 else ZERO
        at += PLANES_PER_POSITION
    # White's rights are in bits 1 and 2, Black's in bits 3 and 4.
    own_rights, other_rights = flags >> (ONE + side + side), flags >> (np.uint64(3) - side - side)
    packed_features[at] = float_as_word(np.float32(side))
    packed_features[at + 1] = _share((flags >> PLIES_SHIFT) & PLIES_MASK, _PLIES_SCALE)
    packed_features[at + 2] = float_as_word(np.float32(own_rights & ONE))
    packed_features[at + 3] = float_as_word(np.float32((own_rights >> ONE) & ONE))
    packed_features[at + 4] = float_as_word(np.float32(other_rights & ONE))
    packed_features[at + 5] = float_as_word(np.float32((other_rights >> ONE) & ONE))
    packed_features[at + 6] = _share((flags >> CLOCK_SHIFT) & CLOCK_MASK, _CLOCK_SCALE)


# ---- Sparse features -----------------------------------------------------------------------------


MEN = 12 * 64 * 4
"""Number of features of men: kind, square, and 2 if attacked plus 1 if defended."""
CASTLING, REPEATED = MEN, MEN + 4
FEATURES = MEN + 5
MOST_ACTIVE = 64 + 5
"""64, because a position that was set up by hand may have a man on every square."""

PIECE_TARGETS = ACTIONS
EXCHANGES = PIECE_TARGETS + 6 * 64
"""First row of moves that give no check: kind and captured piece, `_exchange`, danger at the origin."""
CHECKS = EXCHANGES + 6 * 7 * 12 * 4
"""First row of moves that give check: `_check`, kind and captured piece, danger at the origin."""
ACTION_ROWS = CHECKS + 5 * 6 * 7 * 4
TABLES = 3

SQUARES = 64
_NOBODY, _KING = 12, 5
_SIX, _SQUARE = np.uint64(6), np.uint64(63)
_LAST_RANK, _PROMOTIONS = np.uint64(56), np.uint64(64)


@jit
def _men(planes: Words, king: np.uint64) -> Men:
    """Return the men on the six planes of one side."""
    return Men(planes[0], planes[1], planes[2] | planes[4], planes[3] | planes[4], king)


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
    # A position from another machine may lack a king, whose square would then be undefined.
    king = other[5] if other[5] != ZERO else ONE
    attacked = all_attacks(_men(other, king), occupied)
    by_pawns = pawn_attacks_down(other[0])
    defended = pawn_attacks_up(own[0]) | piece_attacks(_men(own, own[5]), occupied)
    if own[5] != ZERO:
        defended |= KING_ATTACKS[count_trailing_zeros(own[5])]

    man_on = scratch_int32(SQUARES)
    for square in range(64):
        man_on[square] = _NOBODY
    found = 0
    for kind in range(12):
        men = packed_features[kind]
        # Squares attacked by one side are those that it defends.
        hit, held = (attacked, defended) if kind < 6 else (defended, attacked)
        while men and found < SQUARES:  # features from another machine may be arbitrary bits
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
    diagonals, lines = bishop_attacks(at, occupied), rook_attacks(at, occupied)
    flights = KING_ATTACKS[at] & ~(defended | other[0] | other[1] | other[2] | other[3] | other[4] | other[5])
    for i in range(count):
        action = np.uint64(actions[i])
        origin, plane = action & _SQUARE, action >> _SIX
        target = (origin + PLANE_SHIFT[plane]) & _SQUARE
        piece = min(signed(man_on[signed(origin)]), _KING)  # always an own man, if the action is legal
        captured = signed(man_on[signed(target)]) - 6
        # An empty square, or (in features from another machine) an own man.
        if captured < 0 or captured > 5:
            captured = 6
        exchange, danger, mover = 0, 0, ONE << origin
        if _is_in(attacked, origin):
            danger = 3 if _is_in(by_pawns, origin) else 2 - _is_in(defended, origin)
        # If the mover blocks an attacker of the target, the mover is attacked itself, so `danger` covers
        # that.
        if danger or _is_in(attacked, target):
            exchange = _exchange(own, other, target, mover, occupied & ~mover)
        stands = piece
        if piece == 0 and target >= _LAST_RANK:
            stands = 4 if plane < _PROMOTIONS else 1 + signed(plane - _PROMOTIONS) // 3
        rows[3 * i] = signed(action)
        rows[3 * i + 1] = PIECE_TARGETS + piece * 64 + signed(target)
        row = EXCHANGES + ((piece * 7 + captured) * 12 + exchange) * 4
        if _is_in(_check_squares(stands, king, diagonals, lines), target):
            # Without the king, because it cannot flee along the checking line.
            check = _check(stands, target, at, occupied & ~(mover | king), flights, exchange)
            row = CHECKS + (check * 42 + piece * 7 + captured) * 4
        rows[3 * i + 2] = row + danger
    return found


@jit
def _exchange(own: Words, other: Words, square: np.uint64, mover: np.uint64, occupied: np.uint64) -> int:
    """Return 0 if the other side does not attack `square`. Otherwise return twice the kind of its weakest
    attacker (1: pawn, 2: knight or bishop, 3: rook, 4: queen, 5: king), plus 1 if own men other than the
    `mover` defend it."""
    hitting = attackers_of(square, _men(other, other[5]), occupied)
    if (hitting & other[0]) != ZERO:
        weakest = 1
    elif (hitting & (other[1] | other[2])) != ZERO:
        weakest = 2
    elif (hitting & other[3]) != ZERO:
        weakest = 3
    elif hitting != ZERO:
        weakest = 4
    elif (KING_ATTACKS[square] & other[5]) != ZERO:
        weakest = 5
    else:
        return 0
    # Own pawns move up, so they are looked up separately.
    pieces = Men(ZERO, own[1], own[2] | own[4], own[3] | own[4], own[5])
    holding = attackers_of(square, pieces, occupied)
    holding |= (pawn_attacks_down(ONE << square) & own[0]) | (KING_ATTACKS[square] & own[5])
    return 2 * weakest + (1 if (holding & ~mover) != ZERO else 0)


@jit
def _check_squares(piece: int, king: np.uint64, diagonals: np.uint64, lines: np.uint64) -> np.uint64:
    """Return the squares from which a piece gives check: those that the piece would attack from the square of
    the opponent's `king`. `diagonals`, `lines`: what a bishop and a rook would attack from there."""
    if piece == 0:
        return pawn_attacks_down(king)
    if piece == 1:
        return KNIGHT_ATTACKS[count_trailing_zeros(king)]
    if piece == 2:
        return diagonals
    if piece == 3:
        return lines
    return diagonals | lines if piece == 4 else ZERO


@jit
def _check(
    piece: int, square: np.uint64, king: np.uint64, occupied: np.uint64, flights: np.uint64, exchange: int
) -> int:
    """Return the kind of check that a piece on `square` gives to a `king` with these `flights`. 0: the piece
    may be taken; 1: the same, and the king cannot flee; 2: the piece cannot be taken; 3: the same, and the
    king cannot flee; 4: moreover no man can interpose. Kind 4 is mate unless the mover's leaving its origin
    changes something."""
    reach = ZERO
    if piece == 1:
        reach = KNIGHT_ATTACKS[square]
    if piece in (2, 4):
        reach |= bishop_attacks(square, occupied)
    if piece in (3, 4):
        reach |= rook_attacks(square, occupied)
    flees = (flights & ~reach) != ZERO
    # 11 is a king as only attacker of a defended square: it cannot take.
    if 0 < exchange < 11:
        return 0 if flees else 1
    if flees:
        return 2
    return 4 if piece == 1 or _is_in(KING_ATTACKS[king], square) else 3


SHARED = np.full((FEATURES, 1), -1, np.int32)
"""[features, 1]: the row of a man on its square, whatever attacks it."""
SHARED[:MEN, 0] = np.arange(MEN) // 4

SPARSE = SparseFeatures(
    name="chess-attacks-2",
    features=FEATURES,
    most_active=MOST_ACTIVE,
    tables=TABLES,
    action_rows=ACTION_ROWS,
    describe=describe,
    shared=SHARED,
)


PROBES = (
    ("start", ""),
    ("KQK", "4k3/8/8/8/8/8/8/3QK3 w - - 0 1"),
    ("KKQ", "4k3/8/8/8/8/8/8/3QK3 b - - 0 1"),
    ("KQK_black", "3qk3/8/8/8/8/8/8/4K3 b - - 0 1"),
)
"""Balanced; won for the side to move (White); lost for it (Black); and the mirror of KQK for Black, which
must have the same value as KQK."""
