"""Values of the pieces of shogi, in hundredths of a pawn, for fixed players and for figures."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from games.shogi.encoding import CELLS_A_WORD, CODE_WORDS, HANDS_AND_REPETITIONS
from games.shogi.layout import CODE_BITS, IN_ALL

BY_KIND = (0, 100, 300, 350, 500, 550, 800, 950, 0)
"""Nothing, pawn, lance, knight, silver, gold, bishop, rook, king."""
BY_CODE = np.array([*BY_KIND, 550, 550, 550, 550, 0, 1100, 1300], dtype=np.int64)
"""`[code % 16]`: the same with promoted pieces; promoted small ones count as golds."""

PROBES = (
    ("start", ""),
    ("all_in_hand", "4k4/9/9/9/9/9/9/9/4K4 b 2R2B4G4S4N4L18P 1"),
    ("all_in_other_hand", "4k4/9/9/9/9/9/9/9/4K4 b 2r2b4g4s4n4l18p 1"),
    ("all_in_hand_white", "4k4/9/9/9/9/9/9/9/4K4 w 2r2b4g4s4n4l18p 1"),
)
"""Level; won for the side to move (Black); lost for it; and the second position for White, which must have
the same value."""

_SIGNED = np.concatenate([BY_CODE, -BY_CODE]).astype(np.float64)


def material(packed_features: npt.NDArray[np.uint64]) -> npt.NDArray[np.float64]:
    """[n] material of the side to move minus that of the other, on the board and in hand, in pawns.

    packed_features: uint64[n, feature_words] as `games.shogi.encoding` writes them: the codes of the newest
    position first, and the counts after the codes of all positions.
    """
    shifts = np.arange(CELLS_A_WORD, dtype=np.uint64) * np.uint64(CODE_BITS)
    codes = packed_features[:, :CODE_WORDS, None] >> shifts & np.uint64((1 << CODE_BITS) - 1)
    balance: npt.NDArray[np.float64] = _SIGNED[codes].sum(axis=(1, 2))
    history = packed_features.shape[1] // (CODE_WORDS + 1)
    hands = packed_features[:, history * CODE_WORDS]
    for number, (_, lowest, mask, _) in enumerate(HANDS_AND_REPETITIONS.places()[: 2 * len(IN_ALL)]):
        worth = BY_KIND[number % len(IN_ALL) + 1] * (1 if number < len(IN_ALL) else -1)
        balance += worth * (hands >> np.uint64(lowest) & np.uint64(mask)).astype(np.float64)
    return balance / 100
