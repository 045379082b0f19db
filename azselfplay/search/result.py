"""The result of a search at the root. Self-play records it, and the move is chosen from it.

A selection makes a `SearchResult` when its search is over: the policy target (visits, or shares of an
improved policy), the root's value, and what `search.mcts` needs to choose by another rule than visits.
`search_stats` compares the result with the raw network, which cannot be computed from records later;
`search_columns` returns the record's columns for it (`tests/search/test_search_stats.py` has a slow reference
implementation).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from azselfplay.games.jit import jit
from protocol.records import MOST_KL, PRIOR_FLOOR

if TYPE_CHECKING:
    from azselfplay.search.tree import NetView, SearchTree

DEEPEST = 255
"""Largest depth in a record. Depths are stored as uint8, so larger ones are clipped to it."""


@dataclass(eq=False, slots=True)
class SearchResult:
    """The result of a search at the root."""

    actions: npt.NDArray[np.uint16]
    """[k] actions with at least one visit, ascending."""
    visits: npt.NDArray[np.int32]
    """[k] their visits: the policy target, without temperature."""
    value: float
    """Value of the root, for the side to move, in [-1, 1]."""
    is_improved: bool = False
    """Whether `visits` are shares of the improved policy, which sum to SHARES, instead of visits."""
    scores: RootScores | None = None
    """Set by a search with a Gumbel root, unless its result is proven."""
    is_pruned: bool = False
    """Whether `visits` may lack visits of moves that are proven to be worse."""
    candidates: Candidates | None = None
    """The actions that `final_move = secure` chooses from; None with `visits`, or if the result is
    proven."""
    stats: SearchStats | None = None
    """Comparison with the raw network; None if there was no search."""


class Candidates(NamedTuple):
    """The root actions that may be played. All have visits. Arrays [k]."""

    actions: npt.NDArray[np.uint16]
    visits: npt.NDArray[np.int32]
    values: npt.NDArray[np.float64]
    """Mean value, for the side to move."""


class RootScores(NamedTuple):
    """What a Gumbel search knows about each legal action at the root; all arrays [n]."""

    actions: npt.NDArray[np.uint16]
    visits: npt.NDArray[np.int32]
    scores: npt.NDArray[np.float64]
    """log prior + sigma(completed q): the logarithm of the improved policy, up to a constant. -inf for a move
    that is proven to lose while another is not."""
    values: npt.NDArray[np.float64]
    """Completed q, for the side to move; an action without visits has the mixed value."""
    policy: npt.NDArray[np.float64]
    """The improved policy, softmax(scores)."""
    noise: npt.NDArray[np.float64]
    """The Gumbel noise of this search; zeros in a search without noise."""


class SearchStats(NamedTuple):
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


def result_of_visits(tree: SearchTree) -> SearchResult:
    """Return the result of a search whose policy target is the visits of its root, without those of moves
    proven to be worse."""
    edges, settings = tree.edges_of(0), tree.settings
    left, value = tree.visits_without_losses()
    actions, visits = listed(edges["action"], left)
    is_secure = settings.moves.final_move == "secure"
    return SearchResult(
        actions,
        visits,
        value,
        is_pruned=bool((left < edges["visits"]).any()),
        candidates=candidates_of(edges, actions) if is_secure else None,
    )


def candidates_of(edges: npt.NDArray[np.void], actions: npt.NDArray[np.uint16]) -> Candidates:
    """Return the candidates among the root's `edges` (EDGE[n]) with `actions [k]` (ascending, visited): only
    actions in the policy target may be played."""
    # The edges are in the order of the rules, which is not always ascending.
    edges = np.sort(edges[np.isin(edges["action"], actions)], order="action")
    # The policy target may have a single action that was not tried, because all others are proven to lose.
    visits = np.maximum(edges["visits"], 1)
    return Candidates(actions, visits, edges["value_sum"] / visits.astype(np.float64))


def evenly(total: int, parts: int) -> npt.NDArray[np.int32]:
    """Return [parts] `total` in equal parts; the remainder goes to the first ones."""
    each, left = divmod(total, parts)
    shares = np.full(parts, each, np.int32)
    shares[:left] += 1
    return shares


def listed(
    actions: npt.NDArray[np.uint16], visits: npt.NDArray[np.int32]
) -> tuple[npt.NDArray[np.uint16], npt.NDArray[np.int32]]:
    """Return those of `actions [n]` whose `visits [n]` are not 0, in ascending order, and their visits."""
    sorted_actions, sorted_visits = np.empty_like(actions), np.empty_like(visits)
    count = _sort_visited(actions, visits, sorted_actions, sorted_visits)
    return sorted_actions[:count], sorted_visits[:count]


@jit
def _sort_visited(
    actions: npt.NDArray[np.uint16],
    visits: npt.NDArray[np.int32],
    sorted_actions: npt.NDArray[np.uint16],
    sorted_visits: npt.NDArray[np.int32],
) -> int:
    count = 0
    for i in range(len(actions)):
        if visits[i] <= 0:
            continue
        at = count
        # Insertion sort: there are a few dozen entries, and the rules list them nearly in order.
        while at > 0 and sorted_actions[at - 1] > actions[i]:
            sorted_actions[at], sorted_visits[at] = sorted_actions[at - 1], sorted_visits[at - 1]
            at -= 1
        sorted_actions[at], sorted_visits[at] = actions[i], visits[i]
        count += 1
    return count


# ---- Comparison with the raw network -----------------------------------------------------------------


def search_stats(
    view: NetView, actions: npt.NDArray[np.uint16], visits: npt.NDArray[np.int32], depths: tuple[float, int]
) -> SearchStats:
    """Return the comparison of `visits [k]`, of the legal `actions [k]` (ascending), with the network.
    `depths`: (mean, largest) depth."""
    kl, differs = _kl_and_differs(view.actions, view.priors, actions, visits)
    return SearchStats(max(0.0, kl), view.value, bool(differs), *depths)


@jit
def _kl_and_differs(
    legal: npt.NDArray[np.uint16],
    priors: npt.NDArray[np.float32],
    actions: npt.NDArray[np.uint16],
    visits: npt.NDArray[np.int32],
) -> tuple[float, bool]:
    """Return (`kl`, `differs`) of SearchStats for `legal [n]` actions with their `priors [n]`, and for
    `actions [k]` (ascending) with their `visits [k]`."""
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


def search_columns(results: Sequence[SearchResult]) -> dict[str, npt.NDArray[Any]]:
    """Return by name the columns of a record that compare searches with the raw network (`protocol.records`).
    Each is [plies]; a ply without search has NaN, and 0 in `max_depths`."""
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
