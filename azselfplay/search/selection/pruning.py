"""Policy-target pruning: removes from the policy target the visits that forced playouts or noise caused.

KataGo, "Accelerating Self-Play Learning in Go" (arXiv 1902.10565), section 3.2, subtracts forced playouts.
KataGo's later code also computes how many visits PUCT would have wanted, whether or not any were forced. The
forcing itself is `forced_edge` of `search.selection.puct`.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from protocol.settings import SelfPlaySettings


def prunes(settings: SelfPlaySettings) -> bool:
    """Return whether policy targets may lack visits."""
    noise = settings.noise
    return settings.search.solver or noise.prune_noise or noise.forced_playouts > 0


def pruned(
    edges: npt.NDArray[np.void], clean: npt.NDArray[np.float32], settings: SelfPlaySettings
) -> npt.NDArray[np.int32]:
    """Return [n] visits of the root's `edges` (EDGE[n]) minus those that the settings remove.

    `clean [n]`: priors before noise.
    """
    visits: npt.NDArray[np.int32] = edges["visits"].copy()
    # First remove forced playouts; then, from the rest, the visits that only the noise caused.
    if settings.noise.forced_playouts > 0:
        visits = without_forced(edges, settings)
    return without_noise(edges, visits, clean, settings) if settings.noise.prune_noise else visits


def exploration_term(settings: SelfPlaySettings, prior: float, parent_visits: int, visits: int) -> float:
    """Return PUCT's exploration term, as `best_edge` of `search.selection.puct` computes it."""
    search = settings.search
    if search.exploration == "ucb":
        return search.c_puct * prior * math.sqrt(math.log(1.0 + parent_visits) / (1.0 + visits))
    c_puct = search.c_puct
    if search.exploration == "alphazero":
        c_puct = math.log((1.0 + parent_visits + search.c_base) / search.c_base) + search.c_init
    return c_puct * prior * math.sqrt(parent_visits) / (1.0 + visits)


def without_forced(edges: npt.NDArray[np.void], settings: SelfPlaySettings) -> npt.NDArray[np.int32]:
    """Return [n] visits of the root's `edges` (EDGE[n]) minus forced playouts that PUCT alone would not have
    made.

    From every action but the most visited one, up to sqrt(forced_playouts * prior * all visits) visits are
    removed, as long as PUCT would still prefer the most visited action. An action that is left with a single
    visit loses that too. At least one action must have visits.
    """
    visits: npt.NDArray[np.int32] = edges["visits"].copy()
    priors = edges["prior"].astype(np.float64)
    score = _scores(edges, priors, settings)
    total, best = int(visits.sum()), int(np.argmax(visits))
    preferred = score(best, int(visits[best]))
    for i, count in enumerate(visits.tolist()):
        if i == best or count == 0:
            continue
        fewest = max(0, count - math.floor(math.sqrt(settings.noise.forced_playouts * priors[i] * total)))
        left = count
        while left > fewest and score(i, left - 1) < preferred:
            left -= 1
        visits[i] = 0 if left == 1 < count else left
    return visits


def without_noise(
    edges: npt.NDArray[np.void],
    visits: npt.NDArray[np.int32],
    clean: npt.NDArray[np.float32],
    settings: SelfPlaySettings,
) -> npt.NDArray[np.int32]:
    """Return [n] `visits [n]` of the root's `edges` (EDGE[n]) minus those that only the noise caused.

    This concerns actions whose prior the noise raised above `clean [n]`, except the most visited action.
    Visits are removed as long as PUCT, with the clean priors and the values found, still prefers the most
    visited action. An action that is left with a single visit loses that too.
    """
    visits = visits.copy()
    score = _scores(edges, clean.astype(np.float64), settings)
    best = int(np.argmax(edges["visits"]))
    preferred = score(best, int(edges["visits"][best]))
    for i in np.flatnonzero(edges["prior"] > clean).tolist():
        left = count = int(visits[i])
        if i == best:
            continue
        while left > 0 and score(i, left - 1) < preferred:
            left -= 1
        visits[i] = 0 if left == 1 < count else left
    return visits


def _scores(
    edges: npt.NDArray[np.void], priors: npt.NDArray[np.float64], settings: SelfPlaySettings
) -> Callable[[int, int], float]:
    """Return a function (i, count) -> the PUCT score of edge `i` of `edges` (EDGE[n]) with `priors [n]`, if
    it had `count` visits with the same mean."""
    total = int(edges["visits"].sum())
    # Edges without visits have a value_sum of 0; their score is never used.
    values = edges["value_sum"].astype(np.float64) / np.maximum(1, edges["visits"])

    def score(i: int, count: int) -> float:
        return float(values[i]) + exploration_term(settings, float(priors[i]), total + 1, count)

    return score
