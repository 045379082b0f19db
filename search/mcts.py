"""The search coroutine: one leaf in flight, one `await` per leaf (DESIGN 4)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from search.evaluator import Evaluator
from search.tree import SearchTree


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
    """Visits that came with the kept subtree; sum(visits) == simulations + kept."""


async def search(tree: SearchTree, evaluator: Evaluator) -> SearchResult:
    """Run `tree.settings.simulations` simulations from the root, which must not be the game's end."""
    if not tree.is_expanded:
        tree.expand_root(*await evaluator.evaluate(tree.root_leaf()))
    winning = tree.winning_action()
    if winning is not None:
        return _proven(winning, tree.settings.simulations)
    tree.begin()
    leaf = tree.select()
    while leaf is not None:
        priors, value = await evaluator.evaluate(leaf)
        leaf = tree.resume(priors, value)
    return _counted(tree)


def _proven(action: int, simulations: int) -> SearchResult:
    """A win in one needs no search: it gets all visits."""
    return SearchResult(np.array([action], np.uint16), np.array([simulations], np.int32), 1.0, 0)


def _counted(tree: SearchTree) -> SearchResult:
    actions, visits = tree.root_visits()
    order = np.argsort(actions)
    order = order[visits[order] > 0]
    return SearchResult(actions[order], visits[order], tree.root_value(), tree.kept)
