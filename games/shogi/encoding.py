"""AlphaZero's input planes for shogi, packed (arXiv 1712.01815, table S1).

For each of the newest `history` positions, newest first, all seen by the side that is to move NOW: a code
for each square, which becomes 14 planes of its own pieces and 14 of the other's (pawn, lance, knight,
silver, gold, bishop, rook, king, promoted pawn, lance, knight, silver, horse, dragon); and a word with what
both have in hand, as shares of 18 pawns, 4 lances, knights, silvers and golds, 2 bishops and rooks, and
with three bits that say whether the position stood on the board once, twice, three times before. Then side
to move (1 = White) and plies played / 512 (at most 1), said once. The paper is silent on scales; these are
AobaZero's.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from games.bits import ONE, ZERO
from games.coded_cells import CodedCells
from games.jit import jit
from games.packed_scalars import PackedScalars
from games.shogi.boards import Board, rotated, without
from games.shogi.ends import earlier_occurrences
from games.shogi.layout import (
    CODE_BITS,
    CODE_LETTERS,
    HAND_BITS,
    HAND_PLACES,
    IN_ALL,
    PLIES_SHIFT,
    WHITES,
    Kinds,
    hand_of,
    kinds_seen,
    occupied_of,
)
from games.spec import Positions, State

PIECES = 14
REPETITIONS = 3
MOST_PLIES = 512

_HAND_FIELDS = tuple((bits, IN_ALL[kind]) for kind, (_, bits) in HAND_PLACES.items())
HANDS_AND_REPETITIONS = PackedScalars((*_HAND_FIELDS, *_HAND_FIELDS, *((1, 1),) * REPETITIONS))
SIDE_AND_PLIES = PackedScalars(((1, 1), (10, MOST_PLIES)))


def _planes_of() -> tuple[tuple[int, ...], ...]:
    """The plane of each code; codes that no piece has set none."""
    own = [code for code, letters in enumerate(CODE_LETTERS) if code and letters]
    planes = {code + side * WHITES: (side * PIECES + at,) for side in range(2) for at, code in enumerate(own)}
    return tuple(planes.get(code, ()) for code in range(2 * WHITES))


CODED_CELLS = CodedCells(CODE_BITS, _planes_of())
CELLS_A_WORD = CODED_CELLS.cells_a_word
CODE_WORDS = CODED_CELLS.words(81)

SPREAD = np.array(
    [sum((bits >> at & 1) << CODE_BITS * at for at in range(6)) for bits in range(64)], dtype=np.uint64
)
"""Six bits, five apart: one bit of the codes of six squares."""
_SIX, _THIRTY, _NINE = np.uint64(6), np.uint64(30), np.uint64(9)
_SIX_BITS, _TWELVE_BITS = np.uint64(63), np.uint64(4095)
_REPETITIONS_SHIFT = HAND_BITS + HAND_BITS
_MOST_PLIES = np.uint64(MOST_PLIES)


@jit
def _twelve(board: Board, word: int) -> np.uint64:
    """The bits of the twelve squares (the last nine) that word `word` of the codes holds."""
    if word == 6:
        return board[1] >> _NINE
    shift = np.uint64(12 * word)
    return ((board[0] >> shift) | (board[1] << (np.uint64(63) - shift))) & _TWELVE_BITS


@jit
def _spread(twelve: np.uint64) -> np.uint64:
    return SPREAD[twelve & _SIX_BITS] | (SPREAD[twelve >> _SIX] << _THIRTY)


@jit
def _other_seen(state: State, kinds: Kinds, side: np.uint64) -> Board:
    """The squares of the pieces that are not `side`'s, as `side` sees them."""
    white = (state[8], state[9])
    return without(occupied_of(kinds), rotated(white)) if side else white


@jit
def _write_codes(state: State, side: np.uint64, words: npt.NDArray[np.uint64]) -> None:
    """The codes of all squares as `side` sees them; 16 more for a piece of the other. words  [7]"""
    kinds = kinds_seen(state, side)
    other = _other_seen(state, kinds, side)
    for word in range(CODE_WORDS):
        codes = _spread(_twelve(kinds.low, word)) | (_spread(_twelve(kinds.mid, word)) << np.uint64(1))
        codes |= _spread(_twelve(kinds.high, word)) << np.uint64(2)
        codes |= _spread(_twelve(kinds.promoted, word)) << np.uint64(3)
        words[word] = codes | (_spread(_twelve(other, word)) << np.uint64(4))


@jit
def encode(positions: Positions, n: int, history: int, packed_features: npt.NDArray[np.uint64]) -> None:
    """Write the packed features of `positions[n - 1]` with `history` positions (see `games.spec`).

    packed_features  [8 * history + 1]: 7 words of codes for each position, then a word each of hands and
    repetitions, then one of side and plies
    """
    rest = positions[n - 1, 10]
    side = rest & ONE
    for back in range(history):
        at, first = n - 1 - back, back * CODE_WORDS
        words = packed_features[first : first + CODE_WORDS]
        if at < 0:
            words[:] = ZERO
            packed_features[history * CODE_WORDS + back] = ZERO
            continue
        state = positions[at]
        _write_codes(state, side, words)
        hands = hand_of(state, side) | (hand_of(state, ONE - side) << HAND_BITS)
        repetitions = (ONE << np.uint64(earlier_occurrences(positions, at + 1, REPETITIONS))) - ONE  # unary
        packed_features[history * CODE_WORDS + back] = hands | (repetitions << _REPETITIONS_SHIFT)
    packed_features[history * (CODE_WORDS + 1)] = side | (min(rest >> PLIES_SHIFT, _MOST_PLIES) << ONE)
