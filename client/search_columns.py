"""What searches found out about the network, as columns of a record (`protocol.search_columns`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from protocol.search_columns import MOST_KL
from search.result import SearchResult

DEEPEST = 255
"""Depths travel as uint8; deeper ones are told as this."""


def search_columns(results: Sequence[SearchResult]) -> dict[str, npt.NDArray[Any]]:
    """Columns by name, an entry for each ply; plies without a search are unknown."""
    unknown = (np.nan, np.nan, np.nan, 0)
    rows = [
        unknown if (one := result.stats) is None else (one.kl, one.value, one.mean_depth, one.max_depth)
        for result in results
    ]
    kl, values, mean_depths, max_depths = np.array(rows, np.float64).T
    return {
        "prior_kl": np.minimum(kl, MOST_KL).astype(np.float16),
        "prior_values": values.astype(np.float16),
        "mean_depths": mean_depths.astype(np.float16),
        "max_depths": np.minimum(max_depths, DEEPEST).astype(np.uint8),
    }
