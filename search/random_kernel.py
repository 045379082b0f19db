"""Random numbers inside kernels: SplitMix64 (Steele et al., "Fast splittable pseudorandom number generators",
2014), whose whole state is one word of each tree.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from games.jit import kernel

STEP = np.uint64(0x9E3779B97F4A7C15)
MIX_1, MIX_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
S30, S27, S31, S11 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11)
TO_UNIT = 1.0 / (1 << 53)
"""A float64 holds 53 bits exactly: the lowest 11 bits of a word are dropped."""


@kernel
def random_word(state: Any) -> Any:
    """Return the next uint64 of `state.random` (`state`: STATE)."""
    state.random = state.random + STEP
    x = state.random
    x = (x ^ (x >> S30)) * MIX_1
    x = (x ^ (x >> S27)) * MIX_2
    return x ^ (x >> S31)


@kernel
def random_unit(state: Any) -> float:
    """Return a uniform number in (0, 1], from `state` (STATE): never 0, so that its logarithm exists."""
    return (float(random_word(state) >> S11) + 1.0) * TO_UNIT


@kernel
def random_below(state: Any, n: int) -> int:
    """Return a uniform number among 0 .. n - 1, from `state` (STATE). The unit may be 1, which would be n."""
    return min(int(random_unit(state) * n), n - 1)


@kernel
def random_normal(state: Any) -> float:
    """Return a standard normal number, from `state` (STATE), by the method of Box and Muller."""
    return math.sqrt(-2.0 * math.log(random_unit(state))) * math.cos(2.0 * math.pi * random_unit(state))
