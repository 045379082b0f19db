"""The parts of Gumbel AlphaZero that need no tree: the order of visits, and what is known at the root.

Danihelka et al., "Policy improvement by planning with Gumbel" (ICLR 2022).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, eq=False)
class RootScores:
    """What a Gumbel search knows about each legal action at the root; all arrays [n]."""

    actions: npt.NDArray[np.uint16]
    visits: npt.NDArray[np.int32]
    scores: npt.NDArray[np.float64]
    """log prior + sigma(completed q): the logarithm of the improved policy, up to a constant."""
    values: npt.NDArray[np.float64]
    """Completed q, for the side to move: the mixed value where there are no visits."""
    policy: npt.NDArray[np.float64]
    """The improved policy, softmax(scores)."""
    noise: npt.NDArray[np.float64]
    """The Gumbel noise of this search; zeros in a search without noise."""


@lru_cache(maxsize=1024)
def halving_schedule(considered: int, simulations: int) -> npt.NDArray[np.int32]:
    """Return [simulations] for each simulation, how many visits the root action that it takes already has.

    Sequential halving (Karnin et al. 2013) as a list: in each of ceil(log2(considered)) phases every
    considered action gets the same number of visits, then the better half continues; two remain to the end.
    The list has the form used by mctx, the paper's own library.
    """
    if considered <= 1:
        schedule = np.arange(simulations, dtype=np.int32)
    else:
        phases = math.ceil(math.log2(considered))
        visits: list[int] = []
        seen, left = 0, considered
        while len(visits) < simulations:
            for _ in range(max(1, simulations // (phases * left))):
                visits += [seen] * left
                seen += 1
            left = max(2, left // 2)
        schedule = np.array(visits[:simulations], dtype=np.int32)
    schedule.flags.writeable = False
    return schedule
