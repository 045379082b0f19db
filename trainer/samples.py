"""Training data: positions and their targets."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from trainer.replies import Replies


def rows_in(rows: npt.NDArray[np.int64]) -> int:
    """Return how many samples have entries; `rows [entries]` is ascending."""
    return int(np.count_nonzero(np.diff(rows))) + (len(rows) > 0)


class Samples(NamedTuple):
    """`n` positions with their targets.

    The policy target has an entry for every legal action of a position; entry `i` belongs to `rows[i]`.
    """

    packed_features: npt.NDArray[np.uint64]
    """[n, feature_words] packed features."""
    classes: npt.NDArray[np.int64]
    """[n] outcome for the side to move: 0 win, 1 draw, 2 loss."""
    root_values: npt.NDArray[np.float32]
    """[n] value of the search, for the side to move, in [-1, 1]; NaN where there was none."""
    capped: npt.NDArray[np.uint8]
    """[n] 1 for a position of a game that ended at the length limit, not by the rules."""
    plies_left: npt.NDArray[np.int32]
    """[n] plies from here to the end of the game, at least 1."""
    rows: npt.NDArray[np.int64]
    """[entries] ascending; a row without entries is not a policy target."""
    actions: npt.NDArray[np.int64]
    """[entries]"""
    shares: npt.NDArray[np.float32]
    """[entries] share of the root's visits, 0 for an action without visits; they sum to 1 in each row."""
    replies: Replies | None = None
    """Targets of the reply head; None where nobody asked for them."""
