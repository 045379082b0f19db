"""Arrays from outside are as long as compiled code takes them to be, or nothing happens but an exception."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import numpy as np
import pytest

from games import get_game
from protocol.settings import SelfPlaySettings
from search.evaluator import BadEvaluation, Evaluation, LocalEvaluator
from search.gathered_tree import GatheredTree
from search.leaf_batch import Evaluations, Leaf, LeafBatch
from search.settings import resolve
from search.tree import SearchTree
from search.trees import tree_for

GAME = get_game("connect_four")
SETTINGS = resolve(SelfPlaySettings(simulations=20, root_noise=0.0), GAME)


def even(leaf: Leaf, more: int = 0) -> Evaluation:
    """Equal priors, `more` than the leaf has actions."""
    count = len(leaf.actions)
    return Evaluation(np.full(count + more, 1 / count, np.float32), 0.0)


def at_the_start(tree: SearchTree) -> SearchTree:
    tree.reset(GAME.notation.state_from_text(""))
    return tree


def a_tree(root: str = "puct") -> SearchTree:
    return at_the_start(tree_for(GAME, replace(SETTINGS, root=root), np.random.default_rng(0)))


@pytest.mark.parametrize("root", ["puct", "gumbel"])
@pytest.mark.parametrize("more", [-1, 1])
def test_an_answer_of_another_length_is_refused_and_the_leaf_still_waits(root: str, more: int) -> None:
    tree = a_tree(root)
    with pytest.raises(BadEvaluation, match=f"{7 + more} priors, but its position has 7 legal"):
        tree.expand_root(*even(tree.root_leaf(), more))
    assert not tree.is_expanded
    tree.expand_root(*even(tree.root_leaf()))
    tree.begin()
    leaf = tree.select()
    assert leaf is not None
    with pytest.raises(BadEvaluation, match="7 legal actions"):
        tree.resume(*even(leaf, more))
    assert tree.root_visits()[1].sum() == 0
    while leaf is not None:
        leaf = tree.resume(*even(leaf))
    assert tree.root_visits()[1].sum() == 20


@pytest.mark.parametrize("fault", ["short", "long", "missing", "one_more"])
def test_no_leaf_is_settled_if_one_answer_does_not_fit(fault: str) -> None:
    tree = GatheredTree(GAME, SETTINGS, np.random.default_rng(0), max_nodes=100, max_leaves=4)
    at_the_start(tree)
    tree.expand_root(*even(tree.root_leaf()))
    tree.start_search(20)
    leaves = tree.gather(2)
    answers = [even(leaf) for leaf in leaves]
    faulty = {
        "short": [answers[0], even(leaves[1], -1)],
        "long": [answers[0], even(leaves[1], 1)],
        "missing": answers[:1],
        "one_more": [*answers, answers[0]],
    }
    with pytest.raises(BadEvaluation):
        tree.settle(faulty[fault])
    assert (tree.node_count, tree.simulations) == (1, 0)
    tree.settle(answers)
    assert (tree.node_count, tree.simulations) == (3, 2)


@pytest.mark.parametrize("shape", ["priors", "wdl"])
def test_a_batch_answered_wrongly_fails_those_who_wait_for_it_and_no_others(shape: str) -> None:
    answered = 0

    def infer(batch: LeafBatch) -> Evaluations:
        nonlocal answered
        answered += 1
        is_wrong = answered == 1
        total = len(batch.actions) - (is_wrong and shape == "priors")
        rows = batch.rows - (is_wrong and shape == "wdl")
        return Evaluations(np.full(total, 1 / 7, np.float32), np.full((rows, 3), 1 / 3, np.float32), 1)

    async def scenario() -> list[object]:
        evaluator = LocalEvaluator(infer, 2)
        leaf = a_tree().root_leaf()
        try:
            asked = (evaluator.evaluate(leaf) for _ in range(4))
            return await asyncio.wait_for(asyncio.gather(*asked, return_exceptions=True), 60)
        finally:
            evaluator.close()

    answers = asyncio.run(scenario())
    assert [type(answer) for answer in answers] == [BadEvaluation, BadEvaluation, Evaluation, Evaluation]


@pytest.mark.parametrize("make", [a_tree, lambda: a_tree("gumbel")])
def test_no_action_is_played_that_the_game_does_not_have_and_none_behind_the_cap(make) -> None:
    tree = make()
    for action in (-1, 7):
        with pytest.raises(ValueError, match="no action of connect_four"):
            tree.advance(action)
    short = tree_for(GAME, replace(SETTINGS, max_plies=2), np.random.default_rng(0))
    at_the_start(short).advance(0)
    short.advance(1)
    with pytest.raises(ValueError, match="the game is over"):
        short.advance(2)


def test_a_gumbel_search_has_no_more_simulations_than_its_schedule() -> None:
    with pytest.raises(ValueError, match="cannot be extended"):
        a_tree("gumbel").extend(5)


def test_a_leaf_is_chosen_even_where_every_score_is_no_number() -> None:
    """A network gone mad gives a bad search, and not an edge before the first."""
    tree = GatheredTree(GAME, SETTINGS, np.random.default_rng(0), max_nodes=100, max_leaves=4)
    at_the_start(tree).root_leaf()
    tree.expand_root(np.full(7, np.nan, np.float32), float("nan"))
    tree.start_search(20)
    (leaf,) = tree.gather(1)
    assert tree._paths[0, 0] == 0
    assert len(leaf.actions) == 7
