"""AlphaZero's input planes for shogi, packed (arXiv 1712.01815, table S1).

All positions are seen by the side that is to move NOW. For each of the newest `history` positions, newest
first, there is a code for each square, which becomes 14 planes of its own pieces and 14 of the other's (pawn,
lance, knight, silver, gold, bishop, rook, king, promoted pawn, lance, knight, silver, horse, dragon). There
is also a word with what both have in hand, as shares of 18 pawns, 4 lances, knights, silvers and golds, 2
bishops and rooks, and with three bits saying whether the position occurred once, twice, three times before.
The side to move (1 = White) and plies played / 512 (at most 1) are given once. The paper does not give
scales; these are AobaZero's.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from games.bits import ONE, ZERO
from games.coded_cells import CodedCells
from games.jit import jit
from games.packed_scalars import PackedScalars
from games.shogi.ends import same_position
from games.shogi.layout import (
    CODE_BITS,
    CODE_LETTERS,
    HAND_BITS,
    HAND_PLACES,
    IN_ALL,
    PLIES_SHIFT,
    WHITES,
    hand_of,
)
from games.spec import Positions, State

PIECES = 14
REPETITIONS = 3
MOST_PLIES = 512

_HAND_FIELDS = tuple((bits, IN_ALL[kind]) for kind, (_, bits) in HAND_PLACES.items())
HANDS_AND_REPETITIONS = PackedScalars((*_HAND_FIELDS, *_HAND_FIELDS, *((1, 1),) * REPETITIONS))
SIDE_AND_PLIES = PackedScalars(((1, 1), (10, MOST_PLIES)))


def _planes_of() -> tuple[tuple[int, ...], ...]:
    """The plane of each code; unused codes have none."""
    own = [code for code, letters in enumerate(CODE_LETTERS) if code and letters]
    planes = {code + side * WHITES: (side * PIECES + at,) for side in range(2) for at, code in enumerate(own)}
    return tuple(planes.get(code, ()) for code in range(2 * WHITES))


CODED_CELLS = CodedCells(CODE_BITS, _planes_of())
CELLS_A_WORD = CODED_CELLS.cells_a_word
CODE_WORDS = CODED_CELLS.words(81)

_SIX_BITS, _TWELVE_BITS, _SIX = np.uint64(63), np.uint64(4095), np.uint64(6)
_THREE, _THIRTY = np.uint64(3), np.uint64(30)
_REPETITIONS_SHIFT = HAND_BITS + HAND_BITS
_MOST_PLIES = np.uint64(MOST_PLIES)
_REPETITIONS, _EIGHT_BITS = np.uint64(REPETITIONS), np.uint64(255)


def _spread_table() -> npt.NDArray[np.uint64]:
    """`[side * 64 + six bits]`: the bits five apart, one bit of the codes of six squares; for White in the
    opposite order, because the board is rotated."""
    rows = [[bits >> at & 1 for at in range(6)] for bits in range(64)]
    return np.array(
        [sum(bit << CODE_BITS * at for at, bit in enumerate(row[::way])) for way in (1, -1) for row in rows],
        dtype=np.uint64,
    )


SPREAD = _spread_table()


@jit
def _twelve(low: np.uint64, high: np.uint64, first: int) -> np.uint64:
    """The bits of the squares `first` to `first + 11` of a board of two words; there are none before 0."""
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
    """Write the codes of all squares as `side` sees them, plus 16 for a piece of the other. words: [7]."""
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
    """How often each of the newest `history` <= 8 positions occurred before: eight bits each, the newest in
    the lowest.

    The whole game is read, four positions at a time: White's squares on files 1 to 7 distinguish almost all
    positions.
    """
    found = ZERO
    for parity in range(2):
        newest = n - 1 - parity
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
            times = _times_before(positions, n - back, min(history - back, 8))
        at, first = n - 1 - back, back * CODE_WORDS
        words = packed_features[first : first + CODE_WORDS]
        if at < 0:
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
