"""The input of networks for shogi: AlphaZero's input planes, packed, and the features of sparse networks.

Planes (arXiv 1712.01815, table S1). All positions are seen by the side that is to move NOW. For each of the
newest `history` positions, newest first, there is a code for each square. The codes expand to 14 planes of
own pieces and 14 of the other side's (pawn, lance, knight, silver, gold, bishop, rook, king, promoted pawn,
lance, knight, silver, horse, dragon). There is also a word with both hands, as shares of 18 pawns, 4 lances,
knights, silvers and golds, 2 bishops and rooks, and with three bits that say whether the position occurred
once, twice, three times before. The side to move (1 = White) and plies played / 512 (at most 1) are given
once. The paper does not give scales; these are AobaZero's.

Sparse features only express what attacks what by the rules. A feature is a piece on its square, with whether
each side attacks that square; or a kind in a hand with its number of pieces (two pawns are another feature
than one); or that the position stood on the board before. A usual position has about 40 features, one for
each piece of the game, or fewer with several pieces of a kind in a hand. An action has three rows. The first
is for the action itself, the second for the piece that then stands on the target. The third describes what
happens. For a move: the piece, what it captures, whether the target and the origin are attacked, whether it
promotes, and whether it gives check from its target. For a drop: the piece, whether the target is attacked
and defended, and whether it gives check. No piece value and no exchange value is used.

Piece values, in hundredths of a pawn, are only for fixed players and for statistics.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from azselfplay.games.bits import ONE, ZERO, count_trailing_zeros, scratch_int32, scratch_words
from azselfplay.games.boards import walk
from azselfplay.games.jit import jit, signed
from azselfplay.games.shogi.attacks import (
    ACTION_OF,
    ACTIONS,
    AROUND,
    DIAGONAL,
    DROP_PLANE,
    GOLD_STEP,
    KNIGHT_JUMPS,
    KNIGHT_STEP,
    ORTHOGONAL,
    PAWN_STEP,
    PLANE_SHIFT,
    PROMOTION,
    PROMOTION_PLANE,
    SILVER_STEP,
    STEPS,
    bishop_attacks,
    lance_attacks,
    lance_attacks_down,
    rook_attacks,
    row,
)
from azselfplay.games.shogi.board import (
    BISHOP,
    CODE_BITS,
    CODE_LETTERS,
    GOLD,
    HAND_BITS,
    HAND_MASK,
    HAND_PLACES,
    IN_ALL,
    IN_FIRST_WORD,
    KING,
    KNIGHT,
    LANCE,
    PAWN,
    PLIES_SHIFT,
    PROMOTED,
    RANKS,
    ROOK,
    SILVER,
    SQUARES,
    WHITES,
    Board,
    board_of,
    hand_of,
    in_hand,
)
from azselfplay.games.shogi.game_end import same_position
from azselfplay.games.spec import CodedCells, PackedScalars, Positions, SparseFeatures, State
from azselfplay.games.stubs import Actions, Numbers, Words

# ---- Planes --------------------------------------------------------------------------------------


PIECES = 14
REPETITIONS = 3
MOST_PLIES = 512

_HAND_FIELDS = tuple((bits, IN_ALL[kind]) for kind, (_, bits) in HAND_PLACES.items())
HANDS_AND_REPETITIONS = PackedScalars((*_HAND_FIELDS, *_HAND_FIELDS, *((1, 1),) * REPETITIONS))
SIDE_AND_PLIES = PackedScalars(((1, 1), (10, MOST_PLIES)))


CODES = 2 * WHITES
_USED = [code for code in range(1, WHITES) if CODE_LETTERS[code]]
PIECE_OF = np.full(CODES, -1, np.int32)
"""By code: the number of its piece, 0 to 13 for own pieces, then those of the other side; -1: there is no
such piece."""
PIECE_OF[_USED] = range(PIECES)
PIECE_OF[[code + WHITES for code in _USED]] = range(PIECES, 2 * PIECES)

CODED_CELLS = CodedCells(CODE_BITS, tuple(() if piece < 0 else (piece,) for piece in PIECE_OF.tolist()))
CELLS_A_WORD = CODED_CELLS.cells_a_word
CODE_WORDS = CODED_CELLS.words(81)

_SIX_BITS, _TWELVE_BITS, _SIX = np.uint64(63), np.uint64(4095), np.uint64(6)
_THREE, _THIRTY = np.uint64(3), np.uint64(30)
_REPETITIONS_SHIFT = HAND_BITS + HAND_BITS
_MOST_PLIES = np.uint64(MOST_PLIES)
_REPETITIONS, _EIGHT_BITS = np.uint64(REPETITIONS), np.uint64(255)


_SIX_EACH = [[bits >> at & 1 for at in range(6)] for bits in range(64)]
SPREAD = np.array(
    [sum(bit << CODE_BITS * at for at, bit in enumerate(six[::way])) for way in (1, -1) for six in _SIX_EACH],
    dtype=np.uint64,
)
"""`[side * 64 + six bits]`: the six bits spread to a distance of five, as one bit of the codes of six
squares. For White they are in the opposite order, because the board is rotated."""


@jit
def _twelve(low: np.uint64, high: np.uint64, first: int) -> np.uint64:
    """Return the bits of the squares `first` to `first + 11` of a bitboard. `first` may be -3; squares below
    0 give 0."""
    if first < 0:
        return (low << _THREE) & _TWELVE_BITS
    if first >= 63:
        return high >> np.uint64(first - 63)
    return ((low >> np.uint64(first)) | (high << np.uint64(63 - first))) & _TWELVE_BITS


@jit
def _spread(twelve: np.uint64, side: np.uint64) -> np.uint64:
    low, high = twelve & _SIX_BITS, twelve >> _SIX
    if side:
        low, high = high, low
    row = side << _SIX
    return SPREAD[row | low] | (SPREAD[row | high] << _THIRTY)


@jit
def _write_codes(state: State, side: np.uint64, words: npt.NDArray[np.uint64]) -> None:
    """Write the codes of all squares as `side` sees them, plus 16 for a piece of the other side. words:
    [7]."""
    for word in range(CODE_WORDS):
        first = 69 - 12 * word if side else 12 * word  # 80 - square turns the board
        occupied, codes = ZERO, ZERO
        for bit in range(4):
            twelve = _twelve(state[2 * bit], state[2 * bit + 1], first)
            occupied |= twelve
            codes |= _spread(twelve, side) << np.uint64(bit)
        white = _twelve(state[8], state[9], first)
        words[word] = codes | (_spread(occupied ^ white if side else white, side) << np.uint64(4))


@jit
def _times_before(positions: Positions, n: int, history: int) -> np.uint64:
    """Return how often each of the newest `history` <= 8 positions occurred before, as eight bits each, with
    the newest in the lowest bits.

    The whole game is scanned once for each side to move, comparing with four positions at a time. White's
    squares on files 1 to 7 distinguish almost all positions.
    """
    found = ZERO
    for parity in range(2):
        newest = n - 1 - parity
        # Nothing recurs in fewer than four plies.
        if newest < 4:
            continue
        second, third, fourth = max(newest - 2, 0), max(newest - 4, 0), max(newest - 6, 0)
        one, two = positions[newest, 8], positions[second, 8]
        three, four = positions[third, 8], positions[fourth, 8]
        for earlier in range(newest - 4, -1, -2):
            seen = positions[earlier, 8]
            if seen in (one, two, three, four):
                for back in range(parity, min(history, n - 1 - earlier), 2):
                    if same_position(positions[n - 1 - back], positions[earlier]):
                        found += ONE << np.uint64(8 * back)
    return found


@jit
def encode(positions: Positions, n: int, history: int, packed_features: npt.NDArray[np.uint64]) -> None:
    """Write the packed features of `positions[n - 1]` with `history` positions (see `games.spec`).

    packed_features  [8 * history + 1]: 7 words of codes for each position, then a word each of hands and
    repetitions, then one of side and plies
    """
    rest = positions[n - 1, 10]
    side, times = rest & ONE, ZERO
    for back in range(history):
        if back % 8 == 0:
            # Eight counts fit into a word.
            times = _times_before(positions, n - back, min(history - back, 8))
        at, first = n - 1 - back, back * CODE_WORDS
        words = packed_features[first : first + CODE_WORDS]
        if at < 0:
            # Positions before the start are empty.
            words[:] = ZERO
            packed_features[history * CODE_WORDS + back] = ZERO
            continue
        state = positions[at]
        _write_codes(state, side, words)
        hands = hand_of(state, side) | (hand_of(state, ONE - side) << HAND_BITS)
        before = (times >> np.uint64(8 * (back % 8))) & _EIGHT_BITS
        repetitions = (ONE << min(before, _REPETITIONS)) - ONE  # unary
        packed_features[history * CODE_WORDS + back] = hands | (repetitions << _REPETITIONS_SHIFT)
    packed_features[history * (CODE_WORDS + 1)] = side | (min(rest >> PLIES_SHIFT, _MOST_PLIES) << ONE)


# ---- Sparse features -----------------------------------------------------------------------------


MEN = 2 * PIECES * SQUARES * 4
"""Number of features of pieces on the board: piece (own or the other side's), square, and 1 if the side to
move attacks the square plus 2 if the other side does."""
IN_HANDS = sum(IN_ALL.values())
"""Number of features of a hand: a kind and its number of pieces."""
REPEATED = MEN + 2 * IN_HANDS
FEATURES = REPEATED + REPETITIONS
MOST_ACTIVE = SQUARES + 2 * len(IN_ALL) + REPETITIONS
"""Arbitrary words from another machine can have this many; a game has only 40 pieces."""

NOTHING = PIECES
"""Stands for the captured piece if nothing is captured."""
DROPPED = ROOK
"""Number of kinds of pieces that can be dropped."""
OURS, THEIRS = 1 << 16, 1 << 17
"""Marks of squares that the side to move attacks, and of those that the other side attacks. The mark `1 <<
code` is on squares from which an own piece with this code would give check."""
_OURS_AT, _THEIRS_AT = 16, 17
_CODE, _BITS = np.uint64(CODES - 1), np.uint64(CODE_BITS)
_ALL = np.uint64(SQUARES)
_FIRST_WORD = int(IN_FIRST_WORD)


def possible_actions() -> list[int]:
    """Return all actions that are legal in some position, ascending."""
    found = []
    for origin in range(SQUARES):
        jumps = {to for jump in KNIGHT_JUMPS for to in walk(9, origin, jump, 1)}
        for to in range(SQUARES):
            action = int(ACTION_OF[origin * SQUARES + to])
            if action % SQUARES != origin or origin == to or PLANE_SHIFT[action // SQUARES] != to - origin:
                continue  # no piece goes there
            # On the last two ranks a knight must promote, because it could never move again.
            if to not in jumps or to % RANKS >= 2:
                found.append(action)
            if to % RANKS < 3 or (origin % RANKS < 3 and to not in jumps):
                found.append(action + PROMOTION)
    last = {PAWN: 1, LANCE: 1, KNIGHT: 2}
    for kind in IN_ALL:
        first = (DROP_PLANE + kind - PAWN) * SQUARES
        found += [first + to for to in range(SQUARES) if to % RANKS >= last.get(kind, 0)]
    return sorted(found)


SINGLE = np.array([board_of([square]) for square in range(SQUARES)], np.uint64)
"""[81, 2] each square as a bitboard."""
SLIDES = np.array([code & 7 in (BISHOP, ROOK) or code & 15 == LANCE for code in range(CODES)])
"""By code: whether the piece is a slider."""
_UPWARDS = STEPS.reshape(2, -1, 2)[0]
_DOWNWARDS = STEPS.reshape(2, -1, 2)[1]
_BY_CODE = np.zeros((CODES, SQUARES, 2), np.uint64)
for _code, _first in (
    *((PAWN, PAWN_STEP), (KNIGHT, KNIGHT_STEP), (SILVER, SILVER_STEP), (GOLD, GOLD_STEP)),
    *((kind + PROMOTED, GOLD_STEP) for kind in (PAWN, LANCE, KNIGHT, SILVER)),
):
    _rows = slice(int(_first), int(_first) + SQUARES)
    _BY_CODE[_code], _BY_CODE[_code + WHITES] = _UPWARDS[_rows], _DOWNWARDS[_rows]
for _code, _table in ((KING, AROUND), (BISHOP + PROMOTED, ORTHOGONAL), (ROOK + PROMOTED, DIAGONAL)):
    _BY_CODE[_code] = _BY_CODE[_code + WHITES] = _table
STEPS_OF = _BY_CODE.reshape(-1, 2)
"""[CODES * 81, 2] by code and square: the squares that a piece attacks by a step or a jump."""
HAND_FIRST = np.cumsum([0, 0, *IN_ALL.values()])
"""By kind: the first of its features in a hand; index 0 is unused."""
MOST_IN_HAND = np.array([0, *IN_ALL.values()])
CAPTURED = np.where(PIECE_OF >= PIECES, PIECE_OF - PIECES, NOTHING)
"""By the code on the target square: the captured piece, or NOTHING."""
_PROMOTED_LIKE: dict[int, tuple[int, ...]] = {
    GOLD: tuple(range(PAWN, GOLD)),
    BISHOP: (BISHOP,),
    ROOK: (ROOK,),
}
"""By kind: the kinds whose promoted pieces attack like it (or like it and more)."""
CHECKERS = np.array(
    [
        0,
        *(
            (1 << kind) + sum(1 << code + PROMOTED for code in _PROMOTED_LIKE.get(kind, ()))
            for kind in IN_ALL
        ),
    ]
)
"""By kind: the marks of all pieces that attack at least what this kind attacks."""
FIRST_STANDING = len(possible_actions())
ROW_OF = np.zeros(ACTIONS, np.int32)
"""By action: its row, if it is legal in some position."""
ROW_OF[possible_actions()] = range(FIRST_STANDING)
FIRST_MOVE = FIRST_STANDING + PIECES * SQUARES
FIRST_DROP = FIRST_MOVE + PIECES * (PIECES + 1) * 16
ACTION_ROWS = FIRST_DROP + DROPPED * 8


@jit
def _read_board(packed_features: Words, board: Numbers, men: Numbers) -> int:
    """Write the code of each square to `board` [81] and the squares with pieces to `men` [81]. Returns the
    number of pieces."""
    found = 0
    for word in range(CODE_WORDS):
        codes, square = packed_features[word], CELLS_A_WORD * word
        for at in range(square, min(square + CELLS_A_WORD, SQUARES)):
            code = signed(codes & _CODE)
            codes >>= _BITS
            board[at] = code
            if PIECE_OF[code] >= 0:
                men[found] = at
                found += 1
    return found


@jit
def _slides(code: int, square: np.uint64, occupied: Board) -> Board:
    """Return the squares that a piece attacks by sliding, besides its `STEPS_OF`."""
    kind = code & (PROMOTED - 1)
    if kind == BISHOP:
        return bishop_attacks(square, occupied)
    if kind == ROOK:
        return rook_attacks(square, occupied)
    return lance_attacks(square, occupied) if code < WHITES else lance_attacks_down(square, occupied)


@jit
def _mark(squares: Board, mark: int, marks: Numbers) -> None:
    """Set a bit of `marks` [81] for each of these squares."""
    low, high = squares
    while low:
        marks[signed(count_trailing_zeros(low))] |= mark
        low &= low - ONE
    while high:
        marks[_FIRST_WORD + signed(count_trailing_zeros(high))] |= mark
        high &= high - ONE


@jit
def _mark_attacks(board: Numbers, men: Numbers, count: int, marks: Numbers) -> None:
    """Write the marks of all squares to `marks` [81]; `men` [count]: the squares with pieces."""
    # Sliders are handled in a second loop, when all occupied squares are known.
    sliders, sets = scratch_int32(SQUARES), scratch_words(4)
    low = high = ZERO
    sets[:] = ZERO
    # Features from another machine may lack a king; then square 0 stands for it.
    king = found = 0
    for i in range(count):
        square = signed(men[i])
        code = signed(board[square])
        low |= SINGLE[square, 0]
        high |= SINGLE[square, 1]
        side, at = 2 * (code // WHITES), code * SQUARES + square
        sets[side] |= STEPS_OF[at, 0]
        sets[side + 1] |= STEPS_OF[at, 1]
        if SLIDES[code]:
            sliders[found] = square
            found += 1
        if code == KING + WHITES:
            king = square
    for i in range(found):
        square = signed(sliders[i])
        code = signed(board[square])
        reached = _slides(code, np.uint64(square), (low, high))
        side = 2 * (code // WHITES)
        sets[side] |= reached[0]
        sets[side + 1] |= reached[1]
    for square in range(SQUARES):
        word, at = (0, square) if square < _FIRST_WORD else (1, square - _FIRST_WORD)
        ours, theirs = sets[word] >> np.uint64(at), sets[2 + word] >> np.uint64(at)
        marks[square] = OURS * signed(ours & ONE) + THEIRS * signed(theirs & ONE)
    # Squares from which an own piece would give check are those that the other side's king would attack if
    # it were such a piece.
    at_king = np.uint64(king)
    for kind in range(PAWN, ROOK + 1):
        if kind == LANCE or kind >= BISHOP:
            _mark(_slides(kind + WHITES, at_king, (low, high)), CHECKERS[kind], marks)
        else:
            _mark(row(STEPS_OF, np.uint64(kind + WHITES) * _ALL + at_king), CHECKERS[kind], marks)
    for kind in range(BISHOP, ROOK + 1):
        steps = row(STEPS_OF, np.uint64(kind + PROMOTED) * _ALL + at_king)
        _mark(steps, 1 << (kind + PROMOTED), marks)


@jit
def _write_hand(hand: np.uint64, first: int, active: Numbers, found: int) -> int:
    """Append the features of a hand, which are numbered from `first`. Returns the new number of active
    features."""
    for kind in range(PAWN, ROOK + 1):
        # Bits from another machine could hold larger numbers.
        pieces = min(signed(in_hand(hand, kind)), MOST_IN_HAND[kind])
        if pieces > 0:
            active[found] = first + HAND_FIRST[kind] + pieces - 1
            found += 1
    return found


@jit
def describe(
    packed_features: Words, history: int, actions: Actions, count: int, active: Numbers, rows: Numbers
) -> int:
    """Write the active features of a position and the rows of its legal actions (`games.spec`)."""
    board, men, marks = scratch_int32(SQUARES), scratch_int32(SQUARES), scratch_int32(SQUARES)
    found = _read_board(packed_features, board, men)
    _mark_attacks(board, men, found, marks)
    for i in range(found):
        square = signed(men[i])
        piece = signed(PIECE_OF[board[square]])
        active[i] = (piece * SQUARES + square) * 4 + (signed(marks[square]) >> _OURS_AT)

    rest = packed_features[history * CODE_WORDS]
    found = _write_hand(rest & HAND_MASK, MEN, active, found)
    found = _write_hand((rest >> HAND_BITS) & HAND_MASK, MEN + IN_HANDS, active, found)
    for times in range(REPETITIONS):
        if (rest >> (HAND_BITS + HAND_BITS + np.uint64(times))) & ONE:
            active[found] = REPEATED + times
            found += 1

    for i in range(count):
        action = signed(actions[i])
        plane, origin = action // SQUARES, action % SQUARES
        # Clip to the board: another machine may send illegal actions.
        target = min(max(origin + PLANE_SHIFT[plane], 0), SQUARES - 1)
        there = signed(marks[target])
        if plane >= DROP_PLANE:
            code = plane - DROP_PLANE + PAWN
            what = FIRST_DROP + (code - PAWN) * 8 + 2 * (there >> _OURS_AT)
        else:
            before = signed(board[origin]) & (WHITES - 1)
            code = before | PROMOTED if plane >= PROMOTION_PLANE else before
            kinds = max(PIECE_OF[before], 0) * (PIECES + 1) + CAPTURED[board[target]]
            state = 8 * (there >> _THEIRS_AT) + 4 * (signed(marks[origin]) >> _THEIRS_AT)
            what = FIRST_MOVE + kinds * 16 + state + 2 * (1 if code != before else 0)
        rows[3 * i] = ROW_OF[action]
        rows[3 * i + 1] = FIRST_STANDING + max(PIECE_OF[code], 0) * SQUARES + target
        rows[3 * i + 2] = what + ((there >> code) & 1)
    return found


SHARED = np.full((FEATURES, 1), -1, np.int32)
"""[FEATURES, 1]: the row of a piece on its square, whatever attacks it."""
SHARED[:MEN, 0] = np.arange(MEN) // 4

SPARSE = SparseFeatures(
    name="shogi-attacks-1",
    features=FEATURES,
    most_active=MOST_ACTIVE,
    tables=3,
    action_rows=ACTION_ROWS,
    describe=describe,
    shared=SHARED,
)

PROBES = (
    ("start", ""),
    ("all_in_hand", "4k4/9/9/9/9/9/9/9/4K4 b 2R2B4G4S4N4L18P 1"),
    ("all_in_other_hand", "4k4/9/9/9/9/9/9/9/4K4 b 2r2b4g4s4n4l18p 1"),
    ("all_in_hand_white", "4k4/9/9/9/9/9/9/9/4K4 w 2r2b4g4s4n4l18p 1"),
)
"""Balanced; won for the side to move (Black); lost for it; and the third position with White to move, which
must have the same value as the second."""
