"""What is read off a searched tree for people, and what a root is told of its evaluation."""

from __future__ import annotations

import asyncio

import numpy as np

from games import get_game
from protocol.settings import SelfPlaySettings
from search.evaluator import Evaluation, LocalEvaluator, UniformEvaluator
from search.leaf_batch import Evaluations, Leaf, LeafBatch
from search.mcts import SearchResult, search
from search.moves import choose_action
from search.settings import resolve
from search.tree import SearchTree

GAME = get_game("connect_four")


def searched(simulations: int) -> tuple[SearchTree, SearchResult]:
    settings = SelfPlaySettings(simulations=simulations, root_noise=0.0, temperature_plies=0)
    tree = SearchTree(GAME, resolve(settings, GAME), np.random.default_rng(0))
    tree.reset(GAME.notation.state_from_text(""))

    async def main() -> SearchResult:
        return await search(tree, UniformEvaluator())

    return tree, asyncio.run(main())


def test_the_variation_is_what_would_be_played_move_after_move() -> None:
    """Each action is chosen from the visits kept in its subtree; it ends where nothing was visited."""
    tree, result = searched(300)
    variation = tree.principal_variation()
    assert variation[0] == choose_action(result, 0, tree.settings, np.random.default_rng(0))
    for action in variation:
        actions, visits = tree.root_visits()
        order = np.lexsort((actions, -visits))
        assert actions[order[0]] == action
        tree.advance(action)
    assert not tree.is_expanded or tree.root_visits()[1].max() == 0


def test_a_tree_that_was_not_searched_has_no_variation() -> None:
    """Neither before the root's evaluation nor after it alone."""
    tree = SearchTree(GAME, resolve(SelfPlaySettings(), GAME), np.random.default_rng(0))
    tree.reset(GAME.notation.state_from_text(""))
    assert tree.principal_variation() == []
    tree.root_leaf()
    tree.expand_root(np.full(7, 1 / 7, np.float32), 0.0)
    assert tree.principal_variation() == []


def test_wdl_reaches_the_one_who_asked_for_it() -> None:
    """In a batch with others, each gets its own row; leaves get priors and value as ever."""

    def infer(batch: LeafBatch) -> Evaluations:
        share = batch.features[:, 0].astype(np.float32) / 10
        wdl = np.stack([share, 1 - share, np.zeros_like(share)], axis=1)
        return Evaluations(np.ones(len(batch.actions), np.float32), wdl, 1)

    def leaf(number: int) -> Leaf:
        return Leaf(np.array([number], np.uint64), np.array([0], np.uint16))

    async def main() -> None:
        evaluator = LocalEvaluator(infer, 8)

        async def plain() -> Evaluation:
            return await evaluator.evaluate(leaf(3))

        asked = [evaluator.evaluate_wdl(leaf(2)), plain(), evaluator.evaluate_wdl(leaf(4))]
        (two, two_wdl), three, (four, four_wdl) = await asyncio.gather(*asked)
        np.testing.assert_allclose([two.value, three.value, four.value], [0.2, 0.3, 0.4], rtol=1e-6)
        np.testing.assert_allclose([two_wdl, four_wdl], [[0.2, 0.8, 0], [0.4, 0.6, 0]], rtol=1e-6)
        assert evaluator.batches == 1
        assert not evaluator._wdl
        evaluator.close()

    asyncio.run(main())
