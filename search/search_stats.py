"""How far a search result differs from the raw network: the one thing that cannot be computed from records
later.

`tests/search/naive_search_stats.py` is the slow twin.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from games.jit import jit
from protocol.records import PRIOR_FLOOR


class NetView(NamedTuple):
    """The network's own evaluation of the root, before noise."""

    actions: npt.NDArray[np.uint16]
    """[n] legal actions, in the order of the rules."""
    priors: npt.NDArray[np.float32]
    """[n]"""
    value: float
    """The network's value, for the side to move, in [-1, 1]."""


@dataclass(frozen=True, slots=True)
class SearchStats:
    """Compares the network's evaluation with the search result."""

    kl: float
    """KL(pi || P), nats: pi the visits (or shares of the improved policy), P the priors."""
    value: float
    """The network's own value, for the side to move, in [-1, 1]."""
    differs: bool
    """Whether the most visited action (ties go to the lowest index) did not have the largest prior."""
    mean_depth: float
    """Mean depth of this search's simulations, in plies."""
    max_depth: int


def search_stats(
    view: NetView,
    actions: npt.NDArray[np.uint16],
    visits: npt.NDArray[np.int32],
    depths: tuple[float, int],
) -> SearchStats:
    """Compare `actions [k]` (ascending, all legal) and their `visits [k]` with the network; `depths`: mean,
    largest."""
    kl, differs = _kl_and_differs(view.actions, view.priors, actions, visits)
    return SearchStats(max(0.0, kl), view.value, bool(differs), *depths)


@jit
def _kl_and_differs(
    legal: npt.NDArray[np.uint16],
    priors: npt.NDArray[np.float32],
    actions: npt.NDArray[np.uint16],
    visits: npt.NDArray[np.int32],
) -> tuple[float, bool]:
    """Return (KL, differs) for `legal [n]` actions with their `priors [n]`, and `actions [k]`, ascending,
    with their `visits [k]`."""
    mass, largest, total, most = 0.0, np.float32(0.0), 0, 0
    for i in range(len(legal)):
        mass += priors[i]
        largest = max(largest, priors[i])
    for k in range(len(actions)):
        total += visits[k]
    kl, of_most = 0.0, np.float32(0.0)
    for k in range(len(actions)):
        prior = np.float32(0.0)
        for i in range(len(legal)):
            if legal[i] == actions[k]:
                prior = priors[i]
        if visits[k] > most:
            most, of_most = visits[k], prior
        share = visits[k] / total
        kl += share * math.log(share / max(prior / max(mass, PRIOR_FLOOR), PRIOR_FLOOR))
    return kl, bool(of_most < largest)
