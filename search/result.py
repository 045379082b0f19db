"""What a search found at the root."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from games.jit import jit
from protocol.records import MOST_KL
from search.final_move import Candidates
from search.search_stats import SearchStats

if TYPE_CHECKING:
    from search.selection.halving import RootScores
    from search.tree import SearchTree


DEEPEST = 255
"""Largest depth in a record, because depths are stored as uint8; deeper ones are stored as this."""


@dataclass(eq=False, slots=True)
class SearchResult:
    """What a search found at the root."""

    actions: npt.NDArray[np.uint16]
    """[k] actions with at least one visit, ascending."""
    visits: npt.NDArray[np.int32]
    """[k] their visits: the policy target, without temperature."""
    value: float
    """Value of the root, for the side to move, in [-1, 1]."""
    kept: int
    """Visits from the kept subtree; sum(visits) == simulations + kept, less what was pruned."""
    is_target: bool = True
    """Whether the policy is trained on it; false for a cheap search."""
    is_improved: bool = False
    """Whether `visits` are shares of the improved policy, which sum to SHARES, instead of visits."""
    scores: RootScores | None = None
    """Set by a search with a Gumbel root, unless its result is proven."""
    is_pruned: bool = False
    """Whether `visits` may lack forced visits, those caused by noise, or those of moves that are proven to be
    worse."""
    candidates: Candidates | None = None
    """The actions that `final_move` chooses from, unless it chooses by visits; None also if the result is
    proven."""
    stats: SearchStats | None = None
    """How far it differs from the raw network; None where there was no search."""


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
        while at > 0 and sorted_actions[at - 1] > actions[i]:
            sorted_actions[at], sorted_visits[at] = sorted_actions[at - 1], sorted_visits[at - 1]
            at -= 1
        sorted_actions[at], sorted_visits[at] = actions[i], visits[i]
        count += 1
    return count


def candidates_of(edges: npt.NDArray[np.void], actions: npt.NDArray[np.uint16]) -> Candidates:
    """Return the candidates among the root's `edges` (EDGE[n]) with `actions [k]` (ascending, visited): only
    actions in the policy target may be played."""
    edges = np.sort(edges[np.isin(edges["action"], actions)], order="action")
    visits = edges["visits"].copy()
    return Candidates(actions, visits, edges["value_sum"] / visits.astype(np.float64))


def without_lost(visits: npt.NDArray[np.int32], proofs: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
    """Return [n] `visits [n]` without those of actions that are proven losses by `proofs [n]`
    (`SearchTree.edge_proofs`), or all of them if no other action has any."""
    left = np.where(proofs < 0, 0, visits).astype(np.int32)
    return left if left.any() else visits


def result_of_visits(
    tree: SearchTree, left: npt.NDArray[np.int32] | None = None, *, is_cheap: bool
) -> SearchResult:
    """Return the result of a search whose policy target is its visits: those that are `left [n]` of the n
    edges of the root (None: all), without those of proven losses if the search solves."""
    if left is None and not tree.settings.search.solver:
        actions, visits = tree.visited()
        is_pruned = False
    else:
        edges = tree.edges_of(0)
        left = edges["visits"].copy() if left is None else left
        if tree.settings.search.solver:
            left = without_lost(left, np.array(tree.edge_proofs(0)))
        # The record of a cheap search has no such flag, and needs none: its visits are no target.
        is_pruned = not is_cheap and bool((left < edges["visits"]).any())
        actions, visits = listed(edges["action"], left)
    by_value = tree.settings.moves.final_move != "visits"
    return SearchResult(
        actions,
        visits,
        tree.root_value(),
        tree.kept,
        is_target=not is_cheap,
        is_pruned=is_pruned,
        candidates=candidates_of(tree.edges_of(0), actions) if by_value else None,
    )


def search_columns(results: Sequence[SearchResult]) -> dict[str, npt.NDArray[Any]]:
    """Return the columns of a record that compare searches with the raw network, by name
    (`protocol.records`): [plies], unknown where there was no search."""
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
