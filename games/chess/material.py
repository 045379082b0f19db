"""Material on the board, for figures only: neither the search nor the network uses it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

PAWNS = np.array([1.0, 3.0, 3.0, 5.0, 9.0, 0.0])
"""Pawn, knight, bishop, rook, queen, king, in pawns."""

PROBES = (
    ("start", ""),
    ("KQK", "4k3/8/8/8/8/8/8/3QK3 w - - 0 1"),
    ("KKQ", "4k3/8/8/8/8/8/8/3QK3 b - - 0 1"),
    ("KQK_black", "3qk3/8/8/8/8/8/8/4K3 b - - 0 1"),
)
"""Level; won for the side to move (White); lost for it; and the mirror of KQK for Black, which must have the
same value."""


def material(packed_features: npt.NDArray[np.uint64]) -> npt.NDArray[np.float64]:
    """[n] material of the side to move less that of the other, in pawns.

    packed_features  uint64[n, feature_words] as `games.chess.encoding` writes them: six planes of own men,
    six others
    """
    men: npt.NDArray[np.float64] = np.bitwise_count(packed_features[:, :12]).astype(np.float64)
    balance: npt.NDArray[np.float64] = (men[:, :6] - men[:, 6:]) @ PAWNS
    return balance
