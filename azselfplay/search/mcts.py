"""The search coroutine of one move: it awaits the root's evaluation and all simulations."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from azselfplay.search.moves import agrees, is_sampled
from azselfplay.search.pool import SearchPool
from azselfplay.search.result import SearchResult, candidates_of, evenly, listed, search_stats
from azselfplay.search.tree import NetView, SearchTree
from protocol.records import SHARES

AGREEMENT_CHECKS = 8
"""Most checks of a search that is extended."""
PROVEN_DEPTHS = (1.0, 1)
"""Mean and largest depth of a search that only looked for a move that wins at once."""


async def search(tree: SearchTree, pool: SearchPool, *, is_cheap: bool = False) -> SearchResult:
    """Run `simulations` simulations of the tree's settings (cheap: `cheap_simulations`) from the root.

    `pool` must belong to the tree's forest. The root must not be the end of the game. Raises the evaluator's
    errors.
    """
    is_kept_proof = tree.settings.search.solver and tree.is_expanded and tree.proof != 0
    if not tree.is_expanded:
        await pool.expand(tree)
    view = tree.view_of_net()
    winning = tree.winning_actions()  # a win in one move needs no search
    known = None if is_kept_proof else view
    if len(winning):
        return _with_stats(_proven(winning, tree, is_cheap), known, PROVEN_DEPTHS)
    if _is_decided(tree):  # by the search of an earlier move
        return _proven(tree.proven_actions(), tree, is_cheap)
    tree.begin(is_cheap=is_cheap)
    await pool.run(tree)
    if _is_decided(tree):
        proven = _proven(tree.proven_actions(), tree, is_cheap)
        return _with_stats(proven, known, tree.mean_and_max_depth())
    result: SearchResult = tree.forest.selection.result(tree, view, is_cheap=is_cheap)
    result = _with_stats(result, known, tree.mean_and_max_depth())
    settings = tree.settings
    if is_cheap or settings.moves.final_move != "max_robust" or is_sampled(settings, tree.ply):
        return result
    return await _extended(result, tree, pool)


def _is_decided(tree: SearchTree) -> bool:
    """Return whether the proven result of the root makes the target. Shares that are learned in place of
    visits already contain a loss: all moves have its value, so they follow the network."""
    if not tree.settings.search.solver:
        return False
    return tree.proof > 0 or (tree.proof < 0 and not tree.forest.selection.LEARNS_SHARES)


def _with_stats(result: SearchResult, view: NetView | None, depths: tuple[float, int]) -> SearchResult:
    """Add the figures beside the raw network. None: an earlier search has proven the root, which replaced the
    network's evaluation, so they are unknown."""
    if view is not None:
        result.stats = search_stats(view, result.actions, result.visits, depths)
    return result


async def _extended(result: SearchResult, tree: SearchTree, pool: SearchPool) -> SearchResult:
    """Continue the search until there is a max-robust action, or `final_extra` simulations are used up.

    The policy target stays as `simulations` found it: only the candidates change.
    """
    left = tree.settings.moves.final_extra
    step = max(1, left // AGREEMENT_CHECKS)
    while left > 0 and result.candidates is not None and not agrees(result.candidates):
        tree.extend(min(step, left))
        await pool.run(tree)
        left -= step
        result = replace(result, candidates=candidates_of(tree.edges_of(0), result.actions))
    return result


def _proven(actions: npt.NDArray[np.uint16], tree: SearchTree, is_cheap: bool) -> SearchResult:
    """Return the result for `actions [k]` that are proven to win, all equally fast, or to lose, all equally
    slowly: they share the visits evenly.

    The remainder goes to the lowest of them, because the sum is fixed.
    """
    value = -1 if tree.proof < 0 else 1  # a win at once may not be in the tree
    is_improved = tree.forest.selection.LEARNS_SHARES and not is_cheap
    total = tree.settings.playout_cap.cheap_simulations if is_cheap else tree.settings.search.simulations
    arrays = listed(actions, evenly(SHARES if is_improved else total, len(actions)))
    is_pruned = tree.settings.search.solver and not is_cheap and not is_improved
    if is_cheap:
        tree.drop_at_advance()  # its visits are not those of the record, which no flag of a cheap search says
    return SearchResult(
        *arrays, float(value), 0, is_target=not is_cheap, is_improved=is_improved, is_pruned=is_pruned
    )
