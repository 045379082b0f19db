"""What a sparse network reads of a shogi position: only what the rules say about who attacks what.

A feature is a piece on its square, and whether the other side attacks it and its own side defends it; a piece
in hand (the second pawn is another feature than the first); or that the position stood on the board before. A
usual position has 40 of them, one for each piece of the game.

An action has three rows: itself; the piece that then stands on the target; and what happens. Of a move that
is the piece, what it captures, whether the target and the origin are attacked, whether it promotes, and
whether it gives check from its target. Of a drop it is the piece, whether the target is attacked and
defended, and whether it gives check.

No value of a piece and no exchange is in it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from games.bits import ONE, ZERO, count_trailing_zeros
from games.jit import jit, signed
from games.scratch import scratch_int32, scratch_words
from games.shogi.actions import ACTION_OF, ACTIONS, DROP_PLANE, PLANE_SHIFT, PROMOTION, PROMOTION_PLANE
from games.shogi.attacks import (
    AROUND,
    DIAGONAL,
    GOLD_STEP,
    KNIGHT_JUMPS,
    KNIGHT_STEP,
    ORTHOGONAL,
    PAWN_STEP,
    SILVER_STEP,
    STEPS,
    bishop_attacks,
    lance_attacks,
    lance_attacks_down,
    rook_attacks,
    row,
    walk,
)
from games.shogi.boards import IN_FIRST_WORD, RANKS, SQUARES, Board, board_of
from games.shogi.encoding import CELLS_A_WORD, CODE_WORDS, PIECES, REPETITIONS
from games.shogi.layout import (
    BISHOP,
    CODE_BITS,
    CODE_LETTERS,
    GOLD,
    HAND_BITS,
    HAND_MASK,
    IN_ALL,
    KING,
    KNIGHT,
    LANCE,
    PAWN,
    PROMOTED,
    ROOK,
    SILVER,
    WHITES,
    in_hand,
)
from games.spec import SparseFeatures
from games.stubs import Actions, Numbers, Words

MEN = 2 * PIECES * SQUARES * 4
"""Features of pieces on the board: own ones and the other's, square, and 1 if the side to move attacks that
square plus 2 if the other does."""
IN_HANDS = sum(IN_ALL.values())
"""Features of a hand: a kind, and how many of it."""
REPEATED = MEN + 2 * IN_HANDS
FEATURES = REPEATED + REPETITIONS
MOST_ACTIVE = SQUARES + 2 * len(IN_ALL) + REPETITIONS
"""What words can say that come from another machine; the pieces of one game are 40."""

NOTHING = PIECES
"""What a move captures that captures nothing."""
DROPPED = ROOK
"""Kinds of pieces that are dropped."""
OURS, THEIRS = 1 << 16, 1 << 17
"""Marks of squares that the side to move attacks, and that the other does; `1 << code` marks those from which
an own piece with this code would give check."""
_OURS_AT, _THEIRS_AT = 16, 17
CODES = 2 * WHITES
_CODE, _BITS = np.uint64(CODES - 1), np.uint64(CODE_BITS)
_ALL = np.uint64(SQUARES)
_FIRST_WORD = int(IN_FIRST_WORD)


def _pieces() -> npt.NDArray[np.int32]:
    """[CODES] the number of a code's piece: 0 to 13 own ones, then the other's; -1: there is no such
    piece."""
    found, plain = np.full(CODES, -1, np.int32), [code for code in range(1, WHITES) if CODE_LETTERS[code]]
    found[plain] = range(PIECES)
    found[[code + WHITES for code in plain]] = range(PIECES, 2 * PIECES)
    return found


def _steps() -> npt.NDArray[np.uint64]:
    """[CODES * 81, 2] the squares that a piece with a code attacks from a square by a step or a jump."""
    downwards, golds = 4 * SQUARES, (PAWN, LANCE, KNIGHT, SILVER)
    upwards = {PAWN: PAWN_STEP, KNIGHT: KNIGHT_STEP, SILVER: SILVER_STEP, GOLD: GOLD_STEP}
    upwards |= dict.fromkeys((kind + PROMOTED for kind in golds), GOLD_STEP)
    found = np.zeros((CODES, SQUARES, 2), np.uint64)
    for code, first in upwards.items():
        found[code] = STEPS[int(first) : int(first) + SQUARES]
        found[code + WHITES] = STEPS[int(first) + downwards : int(first) + downwards + SQUARES]
    for code, table in ((KING, AROUND), (BISHOP + PROMOTED, ORTHOGONAL), (ROOK + PROMOTED, DIAGONAL)):
        found[code] = found[code + WHITES] = table
    return found.reshape(-1, 2)


def possible_actions() -> list[int]:
    """All actions that are legal in some position, ascending."""
    found = []
    for origin in range(SQUARES):
        jumps = {to for files, ranks in KNIGHT_JUMPS for to in walk(origin, files, ranks, 1)}
        for to in range(SQUARES):
            action = int(ACTION_OF[origin * SQUARES + to])
            if action % SQUARES != origin or origin == to or PLANE_SHIFT[action // SQUARES] != to - origin:
                continue  # no piece goes there
            if to not in jumps or to % RANKS >= 2:
                found.append(action)
            if to % RANKS < 3 or (origin % RANKS < 3 and to not in jumps):
                found.append(action + PROMOTION)
    last = {PAWN: 1, LANCE: 1, KNIGHT: 2}
    for kind in IN_ALL:
        first = (DROP_PLANE + kind - PAWN) * SQUARES
        found += [first + to for to in range(SQUARES) if to % RANKS >= last.get(kind, 0)]
    return sorted(found)


def _numbered(possible: list[int]) -> npt.NDArray[np.int32]:
    """[ACTIONS] the row of each action."""
    found = np.zeros(ACTIONS, np.int32)
    found[possible] = range(len(possible))
    return found


PIECE_OF = _pieces()
SINGLE = np.array([board_of([square]) for square in range(SQUARES)], np.uint64)
"""[81, 2] each square as a board."""
SLIDES = np.array([code & 7 in (BISHOP, ROOK) or code & 15 == LANCE for code in range(CODES)])
"""By code."""
STEPS_OF = _steps()
HAND_FIRST = np.cumsum([0, 0, *IN_ALL.values()])
"""By kind: the first of its features in a hand."""
MOST_IN_HAND = np.array([0, *IN_ALL.values()])
CAPTURED = np.where(PIECE_OF >= PIECES, PIECE_OF - PIECES, NOTHING)
"""By the code of what stands on the target."""
_PROMOTED_LIKE: dict[int, tuple[int, ...]] = {
    GOLD: tuple(range(PAWN, GOLD)),
    BISHOP: (BISHOP,),
    ROOK: (ROOK,),
}
"""By kind: the kinds that attack like it when they are promoted."""
CHECKERS = np.array(
    [
        0,
        *(
            (1 << kind) + sum(1 << code + PROMOTED for code in _PROMOTED_LIKE.get(kind, ()))
            for kind in IN_ALL
        ),
    ]
)
"""By kind: the marks of all pieces that attack what it attacks."""
ROW_OF = _numbered(possible_actions())
FIRST_STANDING = len(possible_actions())
FIRST_MOVE = FIRST_STANDING + PIECES * SQUARES
FIRST_DROP = FIRST_MOVE + PIECES * (PIECES + 1) * 16
ACTION_ROWS = FIRST_DROP + DROPPED * 8


@jit
def _read_board(packed_features: Words, board: Numbers, men: Numbers) -> int:
    """Write the code of each square to `board` [81] and the squares with pieces to `men` [81]. Returns their
    number."""
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
    """The squares that a piece attacks beyond its `STEPS_OF`."""
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
def _mark_checks(king: int, occupied: Board, marks: Numbers) -> None:
    """Mark the squares from which a piece would give check: those that the king would attack if it were such
    a piece."""
    square = np.uint64(king)
    for kind in range(PAWN, ROOK + 1):
        if kind == LANCE or kind >= BISHOP:
            _mark(_slides(kind + WHITES, square, occupied), CHECKERS[kind], marks)
        else:
            _mark(row(STEPS_OF, np.uint64(kind + WHITES) * _ALL + square), CHECKERS[kind], marks)
    for kind in range(BISHOP, ROOK + 1):
        steps = row(STEPS_OF, np.uint64(kind + PROMOTED) * _ALL + square)
        _mark(steps, 1 << (kind + PROMOTED), marks)


@jit
def _mark_attacks(board: Numbers, men: Numbers, count: int, marks: Numbers) -> None:
    """Write the marks of all squares to `marks` [81]; `men` [count]: the squares with pieces."""
    sliders, sets = scratch_int32(SQUARES), scratch_words(4)
    low = high = ZERO
    sets[:] = ZERO
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
    _mark_checks(king, (low, high), marks)


@jit
def _write_hand(hand: np.uint64, first: int, active: Numbers, found: int) -> int:
    """Append the features of a hand, which begin at `first`; returns their new number."""
    for kind in range(PAWN, ROOK + 1):
        pieces = min(signed(in_hand(hand, kind)), MOST_IN_HAND[kind])
        if pieces > 0:
            active[found] = first + HAND_FIRST[kind] + pieces - 1
            found += 1
    return found


@jit
def _write_rows(board: Numbers, marks: Numbers, actions: Actions, count: int, rows: Numbers) -> None:
    for i in range(count):
        action = signed(actions[i])
        plane, origin = action // SQUARES, action % SQUARES
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
    _write_rows(board, marks, actions, count, rows)
    return found


def _shared() -> npt.NDArray[np.int32]:
    """[FEATURES, 1]: a piece on its square, whoever attacks it."""
    shared = np.full((FEATURES, 1), -1, np.int32)
    shared[:MEN, 0] = np.arange(MEN) // 4
    return shared


SPARSE = SparseFeatures(
    name="shogi-attacks-1",
    features=FEATURES,
    most_active=MOST_ACTIVE,
    tables=3,
    action_rows=ACTION_ROWS,
    describe=describe,
    shared=_shared(),
)
