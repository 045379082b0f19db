"""What a search found at the root."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from protocol.search_columns import MOST_KL
from search.final_move import Candidates
from search.search_stats import SearchStats

if TYPE_CHECKING:
    from search.selection.halving import RootScores
    from search.tree import SearchTree


DEEPEST = 255
"""Depths travel as uint8; deeper ones are told as this."""


@dataclass(eq=False, slots=True)
class SearchResult:
    """What a search found at the root."""

    actions: npt.NDArray[np.uint16]
    """[k] actions with at least one visit, ascending."""
    visits: npt.NDArray[np.int32]
    """[k] their visits: the policy target, without temperature."""
    value: float
    """Of the root, for the side to move, in [-1, 1]."""
    kept: int
    """Visits that came with the kept subtree; sum(visits) == simulations + kept, less what was pruned."""
    is_target: bool = True
    """Whether a policy is learned from it: not from a cheap search."""
    is_improved: bool = False
    """Whether `visits` are shares of the improved policy, SHARES in all, instead of visits."""
    scores: RootScores | None = None
    """From a search with `root = gumbel`, unless a win in one was found."""
    is_pruned: bool = False
    """Whether visits that were forced, or that noise caused, were taken out of `visits`."""
    candidates: Candidates | None = None
    """What `final_move` chooses from, if not by visits; None also where a win in one was found."""
    stats: SearchStats | None = None
    """How far it differs from the raw network; None where there was no search."""


def evenly(total: int, parts: int) -> npt.NDArray[np.int32]:
    """[parts] `total` in equal parts; what cannot be divided goes to the first ones."""
    each, left = divmod(total, parts)
    shares = np.full(parts, each, np.int32)
    shares[:left] += 1
    return shares


def listed(
    actions: npt.NDArray[np.uint16], visits: npt.NDArray[np.int32]
) -> tuple[npt.NDArray[np.uint16], npt.NDArray[np.int32]]:
    """Of `actions [n]` with their `visits [n]`: those with visits, in ascending order."""
    order = np.argsort(actions)
    order = order[visits[order] > 0]
    return actions[order], visits[order]


def candidates_of(edges: npt.NDArray[np.void], actions: npt.NDArray[np.uint16]) -> Candidates:
    """Those of the root's `edges` (EDGE[n]) with `actions [k]` (ascending, visited): only what is learned of
    may be played."""
    edges = np.sort(edges[np.isin(edges["action"], actions)], order="action")
    visits = edges["visits"].copy()
    return Candidates(actions, visits, edges["value_sum"] / visits.astype(np.float64))


def result_of_visits(
    tree: SearchTree,
    actions: npt.NDArray[np.uint16],
    visits: npt.NDArray[np.int32],
    *,
    is_cheap: bool,
    is_pruned: bool = False,
) -> SearchResult:
    """Of a search whose policy target is its `visits [k]` of `actions [k]`."""
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
    """What searches found out about the network, as columns of a record by name (`protocol.search_columns`):
    [plies], unknown where there was no search."""
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
