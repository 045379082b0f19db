"""AlphaZero's input planes for chess, packed (Silver et al. 2018, supplement, table S1).

For each of the newest `history` positions, newest first, 14 bit planes, all seen by the side that is
to move NOW (ranks flipped for Black): 6 of its men (pawn, knight, bishop, rook, queen, king), 6 of the
opponent's, then "stood on the board before" and "at least twice before" (all ones or all zeros).
Then seven numbers: side to move (1 = Black), half-moves played / 512 (at most 1), own right to castle
short, long, the opponent's short, long, half-moves since capture or pawn move / 100 (at most 1).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from games.bits import ONE, ZERO, float_as_word
from games.chess.ends import earlier_occurrences
from games.chess.layout import CLOCK_MASK, CLOCK_SHIFT, EVERYWHERE, PLIES_MASK, PLIES_SHIFT, turned
from games.jit import jit
from games.spec import Positions

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
            own = turned(positions[position, np.uint64(6) + side], side)
            other = turned(positions[position, np.uint64(7) - side], side)
            for piece in range(6):
                board = turned(positions[position, piece], side)
                packed_features[at + piece] = board & own
                packed_features[at + 6 + piece] = board & other
            earlier = earlier_occurrences(positions, position + 1, 2)
            packed_features[at + 12] = EVERYWHERE if earlier >= 1 else ZERO
            packed_features[at + 13] = EVERYWHERE if earlier >= 2 else ZERO
        at += PLANES_PER_POSITION
    # Rights are White's in bits 1 and 2, Black's in bits 3 and 4.
    own_rights, other_rights = flags >> (ONE + side + side), flags >> (np.uint64(3) - side - side)
    packed_features[at] = float_as_word(np.float32(side))
    packed_features[at + 1] = _share((flags >> PLIES_SHIFT) & PLIES_MASK, _PLIES_SCALE)
    packed_features[at + 2] = float_as_word(np.float32(own_rights & ONE))
    packed_features[at + 3] = float_as_word(np.float32((own_rights >> ONE) & ONE))
    packed_features[at + 4] = float_as_word(np.float32(other_rights & ONE))
    packed_features[at + 5] = float_as_word(np.float32((other_rights >> ONE) & ONE))
    packed_features[at + 6] = _share((flags >> CLOCK_SHIFT) & CLOCK_MASK, _CLOCK_SCALE)
