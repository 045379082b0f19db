"""What a search did to the network's opinion of a position: the one thing that records cannot tell later.

`tests/search/naive_insight.py` is the slow twin.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from protocol.search_columns import PRIOR_FLOOR


class NetView(NamedTuple):
    """The network's opinion of the root, before noise."""

    actions: npt.NDArray[np.uint16]
    """[n] legal actions, in the order of the rules."""
    priors: npt.NDArray[np.float32]
    """[n]"""
    value: float
    """For the side to move, in [-1, 1]."""


@dataclass(frozen=True, slots=True)
class Insight:
    """The network's opinion against what the search found."""

    kl: float
    """KL(pi || P), nats: pi the visits (or shares of the improved policy), P the priors."""
    value: float
    """The network's own, for the side to move, in [-1, 1]."""
    differs: bool
    """Whether the most visited action (of equals the lowest) had not the largest prior."""
    mean_depth: float
    """Plies that the simulations of this search went down from the root."""
    max_depth: int


def insight(
    view: NetView,
    actions: npt.NDArray[np.uint16],
    visits: npt.NDArray[np.int32],
    depths: tuple[float, int],
) -> Insight:
    """`actions [k]` (ascending, all of them legal) with their `visits [k]`; `depths`: mean, largest."""
    order = np.argsort(view.actions)
    of_visited = view.priors[order[np.searchsorted(view.actions, actions, sorter=order)]].astype(np.float64)
    shares = visits / visits.sum()
    priors = np.maximum(of_visited / max(float(view.priors.sum()), PRIOR_FLOOR), PRIOR_FLOOR)
    kl = float(shares @ np.log(shares / priors))
    differs = bool(of_visited[visits.argmax()] < view.priors.max())
    return Insight(max(0.0, kl), view.value, differs, *depths)
