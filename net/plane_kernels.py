"""Into a network and out of it on a CPU, a position at a time: bits to planes, logits to priors."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from games.bits import ONE, ZERO, count_trailing_zeros
from games.jit import jit

F32 = npt.NDArray[np.float32]
U16 = npt.NDArray[np.uint16]
Words = npt.NDArray[np.uint64]
Numbers = npt.NDArray[Any]
"""float32, or bfloat16 as uint16."""


@jit
def write_planes(packed_features: Words, scalars: Numbers, masks: Words, one: Any, planes: Numbers) -> None:
    """Planes of packed positions. Few bits are set, so zeros are written first and ones to their cells.

    packed_features  [n, feature_words]              the bit planes come first
    scalars  [n, scalar planes]
    masks    [words per plane]       which bits are cells: nothing else is believed
    one      1 in their number format
    planes   [n, cells, planes]      channels-last
    """
    parts = masks.shape[0]
    cells = planes.shape[1]
    bit_planes = planes.shape[2] - scalars.shape[1]
    for row in range(packed_features.shape[0]):
        planes[row] = 0
        for plane in range(bit_planes):
            for part in range(parts):
                bits = packed_features[row, plane * parts + part] & masks[part]
                while bits != ZERO:
                    planes[row, 64 * part + int(count_trailing_zeros(bits)), plane] = one
                    bits &= bits - ONE
        for k in range(scalars.shape[1]):
            for cell in range(cells):
                planes[row, cell, bit_planes + k] = scalars[row, k]


@jit
def legal_priors(logits: F32, counts: U16, actions: U16, priors: F32) -> None:
    """Softmax over the legal actions of each position.

    logits [n, all actions], counts [n], actions and priors [sum of counts]
    """
    at = 0
    for row in range(counts.shape[0]):
        end = at + int(counts[row])
        largest = np.float32(-np.inf)
        for k in range(at, end):
            priors[k] = logits[row, actions[k]]
            largest = max(largest, priors[k])
        total = np.float32(0)
        for k in range(at, end):
            priors[k] = np.exp(priors[k] - largest)
            total += priors[k]
        for k in range(at, end):
            priors[k] /= total
        at = end
