"""Policy-target pruning: visits that forced playouts made, taken out of what is learned.

KataGo, "Accelerating Self-Play Learning in Go" (arXiv 1902.10565), section 3.2. The forcing itself is
`forced_edge` of `search.kernel`.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from protocol.settings import SelfPlaySettings


def exploration_term(settings: SelfPlaySettings, prior: float, parent_visits: int, visits: int) -> float:
    """What PUCT adds to a value, as `best_edge` of `search.kernel` computes it."""
    if settings.exploration == "ucb":
        return settings.c_puct * prior * math.sqrt(math.log(1.0 + parent_visits) / (1.0 + visits))
    c_puct = settings.c_puct
    if settings.exploration == "alphazero":
        c_puct = math.log((1.0 + parent_visits + settings.c_base) / settings.c_base) + settings.c_init
    return c_puct * prior * math.sqrt(parent_visits) / (1.0 + visits)


def without_forced(edges: npt.NDArray[np.void], settings: SelfPlaySettings) -> npt.NDArray[np.int32]:
    """[n] visits of the root's EDGEs less those that were forced and that PUCT did not want.

    From every action but the most visited, up to sqrt(forced_playouts * prior * all visits) visits are
    taken, as long as PUCT would still prefer the most visited one; an action that is left with one visit
    loses that too. At least one action must have visits.
    """
    visits: npt.NDArray[np.int32] = edges["visits"].copy()
    total, best = int(visits.sum()), int(np.argmax(visits))
    priors = edges["prior"].astype(np.float64)
    values = edges["value_sum"].astype(np.float64) / np.maximum(1, visits)

    def score(i: int, count: int) -> float:
        """PUCT of edge `i`, had it `count` visits of the same mean."""
        return float(values[i]) + exploration_term(settings, float(priors[i]), total + 1, count)

    preferred = score(best, int(visits[best]))
    for i, count in enumerate(visits.tolist()):
        if i == best or count == 0:
            continue
        fewest = max(0, count - math.floor(math.sqrt(settings.forced_playouts * priors[i] * total)))
        left = count
        while left > fewest and score(i, left - 1) < preferred:
            left -= 1
        visits[i] = 0 if left == 1 < count else left
    return visits
