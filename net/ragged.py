"""Conversions between concatenated lists of legal actions and a rectangle with one row per position."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from games.jit import jit

U16 = npt.NDArray[np.uint16]


@jit
def spread(actions: U16, counts: U16, filler: int, out: npt.NDArray[np.int32]) -> None:
    """Write list `i` of `actions`, which has `counts[i]` entries, to row `i` of `out`, then `filler`."""
    at = 0
    for row in range(counts.shape[0]):
        count = int(counts[row])
        for k in range(count):
            out[row, k] = actions[at + k]
        out[row, count:] = filler
        at += count


@jit
def compact(rectangle: U16, counts: U16, out: U16) -> None:
    """Concatenate the first `counts[i]` entries of each row of `rectangle` (float16 seen as its bits)."""
    at = 0
    for row in range(counts.shape[0]):
        for k in range(int(counts[row])):
            out[at] = rectangle[row, k]
            at += 1
