"""The search coroutine: one leaf in flight, one `await` per leaf (DESIGN 4)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from protocol.records import SHARES
from search.evaluator import Evaluator
from search.final_move import Candidates, agrees, is_drawn
from search.gumbel import RootScores, integer_shares
from search.gumbel_tree import GumbelTree
from search.insight import Insight, NetView, insight
from search.pruning import pruned, prunes
from search.tree import SearchTree

AGREEMENT_CHECKS = 8
"""How often, at most, a search that is extended is looked at."""
PROVEN_DEPTHS = (1.0, 1)
"""Mean and largest depth of a search that only looked for a win in one."""


@dataclass(frozen=True, eq=False)
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
    insight: Insight | None = None
    """What the search did to the network's opinion; None where there was no search."""


async def search(tree: SearchTree, evaluator: Evaluator, *, is_cheap: bool = False) -> SearchResult:
    """Run `simulations` simulations of the tree's settings (cheap: `cheap_simulations`) from the root.

    The root must not be the game's end.
    """
    if not tree.is_expanded:
        tree.expand_root(*await evaluator.evaluate(tree.root_leaf()))
    view = tree.view_of_net()
    winning = tree.winning_actions()
    if len(winning):
        return _told(_proven(winning, tree, is_cheap), view, PROVEN_DEPTHS)
    tree.begin(is_cheap=is_cheap)
    tree.start_depths()
    leaf = tree.select()
    while leaf is not None:  # here, not in a coroutine of its own: each leaf would wake one more
        priors, value = await evaluator.evaluate(leaf)
        leaf = tree.resume(priors, value)
    result = _improved(tree, is_cheap) if isinstance(tree, GumbelTree) else _counted(tree, is_cheap, view)
    result = _told(result, view, tree.mean_and_max_depth())
    settings = tree.settings
    if is_cheap or settings.final_move != "max_robust" or is_drawn(settings, tree.ply):
        return result
    return await _extended(result, tree, evaluator)


def _told(result: SearchResult, view: NetView, depths: tuple[float, int]) -> SearchResult:
    return replace(result, insight=insight(view, result.actions, result.visits, depths))


async def _extended(result: SearchResult, tree: SearchTree, evaluator: Evaluator) -> SearchResult:
    """Search on until a max-robust action is there, or `final_extra` simulations are spent.

    What is learned stays what `simulations` found: only the candidates change.
    """
    left = tree.settings.final_extra
    step = max(1, left // AGREEMENT_CHECKS)
    while left > 0 and result.candidates is not None and not agrees(result.candidates):
        tree.extend(min(step, left))
        leaf = tree.select()
        while leaf is not None:
            leaf = tree.resume(*await evaluator.evaluate(leaf))
        left -= step
        result = replace(result, candidates=_candidates(tree.root_edges(), result.actions))
    return result


def _proven(actions: npt.NDArray[np.uint16], tree: SearchTree, is_cheap: bool) -> SearchResult:
    """A win in one needs no search: all `actions [k]` that win at once share the visits evenly.

    What cannot be divided goes to the lowest of them, as the sum is fixed.
    """
    is_improved = isinstance(tree, GumbelTree) and not is_cheap
    total = tree.settings.cheap_simulations if is_cheap else tree.settings.simulations
    arrays = _listed(actions, evenly(SHARES if is_improved else total, len(actions)))
    return SearchResult(*arrays, 1.0, 0, is_target=not is_cheap, is_improved=is_improved)


def evenly(total: int, parts: int) -> npt.NDArray[np.int32]:
    """[parts] `total` in equal parts; what cannot be divided goes to the first ones."""
    each, left = divmod(total, parts)
    shares = np.full(parts, each, np.int32)
    shares[:left] += 1
    return shares


def _counted(tree: SearchTree, is_cheap: bool, view: NetView) -> SearchResult:
    settings = tree.settings
    actions, visits = tree.root_visits()
    left = visits
    if settings.root_noise > 0 and not is_cheap and prunes(settings):
        left = pruned(tree.root_edges(), view.priors, settings)
    arrays = _listed(actions, left)
    wants_values = settings.final_move != "visits"
    return SearchResult(
        *arrays,
        tree.root_value(),
        tree.kept,
        is_target=not is_cheap,
        is_pruned=left is not visits and bool((left < visits).any()),
        candidates=_candidates(tree.root_edges(), arrays[0]) if wants_values else None,
    )


def _candidates(edges: npt.NDArray[np.void], actions: npt.NDArray[np.uint16]) -> Candidates:
    """The root's edges of `actions` (ascending, visited): only what is learned of may be played."""
    edges = np.sort(edges[np.isin(edges["action"], actions)], order="action")
    visits = edges["visits"].copy()
    return Candidates(actions, visits, edges["value_sum"] / visits.astype(np.float64))


def _improved(tree: GumbelTree, is_cheap: bool) -> SearchResult:
    """The improved policy and its value; a cheap search, being no target, shows its visits instead."""
    root = tree.root_scores()
    policy = root.policy
    column = root.visits if is_cheap else integer_shares(policy, SHARES)
    arrays = _listed(root.actions, column)
    value = float(policy @ root.values)
    return SearchResult(*arrays, value, 0, is_target=not is_cheap, is_improved=not is_cheap, scores=root)


def _listed(
    actions: npt.NDArray[np.uint16], visits: npt.NDArray[np.int32]
) -> tuple[npt.NDArray[np.uint16], npt.NDArray[np.int32]]:
    """What has visits, in the order of actions."""
    order = np.argsort(actions)
    order = order[visits[order] > 0]
    return actions[order], visits[order]
