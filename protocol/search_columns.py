"""Columns of a game record that cannot be computed later: how far the search differs from the raw network.

Each entry may be unknown: where there was no search, and in games of clients that do not send them.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any

import numpy as np
import numpy.typing as npt

UNKNOWN: dict[str, float] = {
    "prior_kl": np.nan, "prior_values": np.nan, "mean_depths": np.nan, "max_depths": 0,
}  # fmt: skip
"""The columns, each with the value that stands for "not known"."""
PRIOR_FLOOR = 1e-8
"""Smaller priors (float16 rounds them to 0) are raised to this, so that every KL is finite."""
MOST_KL = 20.0
"""Largest prior_kl, nats; -log(PRIOR_FLOOR) is 18.4."""
_LIMITS = (("prior_kl", 0.0, MOST_KL), ("prior_values", -1.0, 1.0), ("mean_depths", 0.0, 65504.0))
_NAN = 0x7E00
"""Bits of the only NaN that is accepted, so that the encoding of a record is unique."""


def not_known(dtype: type[np.generic]) -> Any:
    """Return a column's default: empty. `GameRecord` replaces it in the columns of UNKNOWN."""
    return field(default_factory=lambda: np.zeros(0, dtype))


def fault_of(*columns: npt.NDArray[np.float16]) -> str:
    """Describe what is wrong with the columns prior_kl, prior_values and mean_depths; "" if nothing is."""
    for (name, low, high), column in zip(_LIMITS, columns, strict=True):
        unknown = np.isnan(column)
        if not (unknown | ((column >= low) & (column <= high))).all():
            return f"{name} has an entry that is not in [{low:g}, {high:g}]"
        if (column[unknown].view(np.uint16) != _NAN).any():
            return f"{name} has a NaN with other bits than 0x{_NAN:04x}"
    return ""
