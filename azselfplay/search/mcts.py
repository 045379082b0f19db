"""One move of a game: the coroutine that searches, and the choice of a move from its result.

`search` awaits the root's evaluation and all simulations. `choose_action` samples the move from the visits in
the first plies of a game (`temperature`). Afterwards `final_move` says how to choose from a finished PUCT
search: by visits, or the secure child of Chaslot et al., "Progressive strategies for Monte-Carlo tree search"
(2008). A search with a Gumbel root plays the winner of its sequential halving.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from azselfplay.games.jit import jit
from azselfplay.search.pool import SearchPool
from azselfplay.search.result import Candidates, RootScores, SearchResult, evenly, listed, search_stats
from azselfplay.search.tree import SearchTree
from protocol.records import SHARES
from protocol.settings import SelfPlaySettings

PROVEN_DEPTHS = (1.0, 1)
"""Mean and largest depth of a search that only looked for a move that wins at once."""

SECURE = 1.0
"""Constant of `secure_action`, in units of value (Chaslot et al. give 4 for their program Mango)."""


async def search(tree: SearchTree, pool: SearchPool) -> SearchResult:
    """Run `simulations` simulations of the tree's settings from the root.

    `pool` must belong to the tree's forest. The root must not be the end of the game. Raises the evaluator's
    errors.
    """
    # Such a proof has replaced the network's value, so the search cannot be compared with the network.
    has_old_proof = tree.settings.search.solver and tree.is_expanded and tree.proof != 0
    if not tree.is_expanded:
        await pool.expand(tree)
    view, winning = tree.view_and_wins()
    if len(winning):  # no search is needed
        result, depths = _proven(winning, tree), PROVEN_DEPTHS
    elif _proof_is_target(tree):  # before a search, only by the search of an earlier move
        return _proven(tree.proven_actions(), tree)
    else:
        tree.begin()
        await pool.run(tree)
        is_proven = _proof_is_target(tree)
        result = _proven(tree.proven_actions(), tree) if is_proven else tree.forest.selection.result(tree)
        depths = tree.mean_and_max_depth()
    if not has_old_proof:
        result.stats = search_stats(view, result.actions, result.visits, depths)
    return result


def _proof_is_target(tree: SearchTree) -> bool:
    """Return whether the root's proof replaces the search's policy target. A proven loss does not if the
    selection learns shares instead of visits: all moves then have the same value, so the shares follow the
    priors anyway."""
    if not tree.settings.search.solver:
        return False
    return tree.proof > 0 or (tree.proof < 0 and not tree.forest.selection.LEARNS_SHARES)


def _proven(actions: npt.NDArray[np.uint16], tree: SearchTree) -> SearchResult:
    """Return the result for `actions [k]` that are all proven to win equally fast, or to lose equally slowly.
    They share the visits evenly.

    The sum of the visits is fixed, so the remainder goes to the lowest actions.
    """
    value = -1 if tree.proof < 0 else 1  # a win in one move may not be in the tree, so the proof may be 0
    search, is_improved = tree.settings.search, tree.forest.selection.LEARNS_SHARES
    arrays = listed(actions, evenly(SHARES if is_improved else search.simulations, len(actions)))
    is_pruned = search.solver and not is_improved
    return SearchResult(*arrays, float(value), is_improved=is_improved, is_pruned=is_pruned)


# ---- Which move is played ----------------------------------------------------------------------------


def choose_action(
    result: SearchResult, ply: int, settings: SelfPlaySettings, rng: np.random.Generator
) -> int:
    """Choose a move: sampled from visits ** (1 / temperature) in the first plies, by `final_move` later.

    For `search.selection = "gumbel"` see `choose_by_scores`.
    """
    sampled_now = ply < settings.moves.temperature_plies and settings.moves.temperature > 0
    if result.scores is not None:
        temperature = settings.moves.temperature if sampled_now and settings.noise.root_noise > 0 else 0.0
        return choose_by_scores(result.scores, temperature)
    if not sampled_now and result.candidates is not None:
        return secure_action(result.candidates)
    if not sampled_now:
        return int(result.actions[result.visits.argmax()])
    visits = result.visits.tolist()  # for a few numbers plain Python is faster than NumPy
    most = max(visits)
    weights = [count / most for count in visits]
    if settings.moves.temperature != 1.0:
        weights = (np.array(weights) ** (1.0 / settings.moves.temperature)).tolist()
    cumulative = list(accumulate(weights))
    drawn = bisect_right(cumulative, rng.random() * cumulative[-1])
    # Rounding may place the drawn number at the very end of the sum.
    return int(result.actions[min(drawn, len(visits) - 1)])


def choose_by_scores(root: RootScores, temperature: float) -> int:
    """Return the winner of sequential halving: among the most visited actions, the one with the largest
    score.

    In the first plies (`temperature` above 0) the noise of the search is added to the scores. At temperature
    1 this samples from the improved policy, but only approximately: the noise also decided which actions were
    considered. With one considered action it samples from the prior.
    """
    return int(root.actions[best_scored(root.scores, root.noise, root.visits, temperature)])


@jit
def best_scored(
    scores: npt.NDArray[np.float64],
    noise: npt.NDArray[np.float64],
    visits: npt.NDArray[np.int32],
    temperature: float,
) -> int:
    """Return the index of the largest `scores + temperature * noise` (all [n]) among the most visited of the
    actions with a score above -inf. Ties go to the lowest index."""
    most = 0
    for i in range(len(scores)):
        if scores[i] > -math.inf:
            most = max(most, visits[i])
    best, best_score = 0, -math.inf
    for i in range(len(scores)):
        score = scores[i] + temperature * noise[i]
        if visits[i] >= most and score > best_score:
            best, best_score = i, score
    return best


def secure_action(candidates: Candidates, c: float = SECURE) -> int:
    """Return the action with the highest lower bound, value - c / sqrt(visits). Ties go to the most visited,
    then to the first."""
    bounds = candidates.values - c / np.sqrt(candidates.visits)
    return int(candidates.actions[np.lexsort((-np.arange(len(bounds)), candidates.visits, bounds))[-1]])
