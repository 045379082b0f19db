"""Arrays from outside with another length than compiled code expects raise an exception and change
nothing."""

import asyncio
from dataclasses import replace

import numpy as np
import pytest
from changed_settings import self_play, varied
from leaf_by_leaf import Answer, Leaf, LeafByLeaf, placed, searched

from azselfplay.games import get_game
from azselfplay.search.evaluator import BadEvaluation, Evaluations, LocalEvaluator, evaluate
from azselfplay.search.forest import Forest
from azselfplay.search.leaf_parallel import ParallelTree
from azselfplay.search.settings import resolve
from azselfplay.search.tree import SearchTree
from protocol.frames import LeafBatch

GAME = get_game("connect_four")
SETTINGS = resolve(self_play(simulations=20, root_noise=0.0), GAME)


def even(leaf: Leaf, more: int = 0) -> Answer:
    """Return equal priors, `more` too many for the leaf."""
    count = len(leaf.actions)
    return np.full(count + more, 1 / count, np.float32), 0.0


def a_tree(root: str = "puct") -> SearchTree:
    return placed(SearchTree(Forest(GAME, varied(SETTINGS, selection=root)), np.random.default_rng(0)))


class Misfitting(LeafByLeaf):
    """Answers `right` leaves correctly, and then one with `more` priors too many."""

    def __init__(self, right: int, more: int) -> None:
        super().__init__()
        self.right, self.more = right, more

    def answer(self, leaf: Leaf) -> Answer:
        self.right -= 1
        return even(leaf, self.more if self.right == -1 else 0)


@pytest.mark.parametrize("root", ["puct", "gumbel"])
@pytest.mark.parametrize("more", [-1, 1])
def test_an_answer_of_another_length_is_refused_and_the_leaf_still_waits(root: str, more: int) -> None:
    tree = a_tree(root)
    with pytest.raises(BadEvaluation, match=f"{7 + more} priors, but its position has 7 legal"):
        tree.expand_root(*even(tree.root_leaf(), more))
    assert not tree.is_expanded
    tree.expand_root(*even(tree.root_leaf()))
    assert tree.edges_of(0)["prior"].tolist() == [np.float32(1 / 7)] * 7


@pytest.mark.parametrize("root", ["puct", "gumbel"])
@pytest.mark.parametrize("more", [-1, 1])
@pytest.mark.parametrize("right", [0, 1, 5])
def test_an_answer_of_another_length_ends_the_search_and_counts_for_nothing(
    root: str, more: int, right: int
) -> None:
    """The bad answer comes at the root, at the first simulation or during the search; another search of the
    tree works."""
    tree = a_tree(root)
    with pytest.raises(BadEvaluation):
        searched(tree, Misfitting(right, more))
    assert tree.node_count == right
    assert tree.is_expanded == (right > 0)
    if right:
        assert tree.edges_of(0)["visits"].sum() == right - 1
        assert not tree.edges_of(0)["in_flight"].any()
    expected = searched(a_tree(root))
    assert searched(placed(tree)).visits.tolist() == expected.visits.tolist()


def answers_to(batch: LeafBatch, rows: int, more: int = 0) -> Evaluations:
    """Return equal priors for the first `rows` of a batch, or one row too many; `more` priors too many."""
    counts = [*batch.counts.tolist(), 7][:rows]
    priors = np.concatenate([np.full(count, 1 / count, np.float32) for count in counts])
    return Evaluations(np.resize(priors, len(priors) + more), np.tile(np.float32([0, 1, 0]), (rows, 1)), 0)


@pytest.mark.parametrize(("rows", "more"), [(2, -1), (2, 1), (1, 0), (3, 0), (0, 0)])
def test_no_leaf_is_settled_if_one_answer_does_not_fit(rows: int, more: int) -> None:
    """One prior or one answer is missing or too many, or there are no answers."""
    tree = ParallelTree(GAME, SETTINGS, np.random.default_rng(0), max_nodes=200, max_leaves=4)
    placed(tree)
    tree.expand_root(*even(tree.root_leaf()))
    tree.start_search(64)
    while tree.remaining:
        batch = tree.gather()
        tree.settle(answers_to(batch, batch.rows))
    nodes = tree.node_count
    tree.start_search(20)
    batch = tree.gather()
    assert batch.rows == 2
    with pytest.raises(BadEvaluation):
        tree.settle(answers_to(batch, rows, more) if rows else Evaluations(NOTHING, NOTHING.reshape(0, 3), 0))
    assert (tree.node_count, tree.simulations) == (nodes, 0)
    tree.settle(answers_to(batch, 2))
    assert (tree.node_count, tree.simulations) == (nodes + 2, 2)


NOTHING = np.zeros(0, np.float32)


@pytest.mark.parametrize("shape", ["priors", "wdl"])
async def test_a_batch_answered_wrongly_fails_those_who_wait_for_it_and_no_others(shape: str) -> None:
    answered = 0

    def infer(batch: LeafBatch) -> Evaluations:
        nonlocal answered
        answered += 1
        is_wrong = answered == 1
        total = len(batch.actions) - (is_wrong and shape == "priors")
        rows = batch.rows - (is_wrong and shape == "wdl")
        return Evaluations(np.full(total, 1 / 7, np.float32), np.full((rows, 3), 1 / 3, np.float32), 1)

    evaluator = LocalEvaluator(infer, 2)
    leaf = a_tree().root_leaf()
    try:
        asked = (evaluate(evaluator, leaf) for _ in range(4))
        answers = await asyncio.wait_for(asyncio.gather(*asked, return_exceptions=True), 60)
    finally:
        evaluator.close()
    assert [type(answer) for answer in answers] == [BadEvaluation, BadEvaluation, Evaluations, Evaluations]


@pytest.mark.parametrize("make", [a_tree, lambda: a_tree("gumbel")])
def test_no_action_is_played_that_the_game_does_not_have_and_none_behind_the_cap(make) -> None:
    tree = make()
    for action in (-1, 7):
        with pytest.raises(ValueError, match="not an action of connect_four"):
            tree.advance(action)
    short = SearchTree(Forest(GAME, replace(SETTINGS, max_plies=2)), np.random.default_rng(0))
    placed(short).advance(0)
    short.advance(1)
    with pytest.raises(ValueError, match="the game is over"):
        short.advance(2)


def test_a_leaf_is_chosen_even_where_every_score_is_no_number() -> None:
    """A faulty network gives a bad search, but never an index below the first edge."""
    tree = ParallelTree(GAME, SETTINGS, np.random.default_rng(0), max_nodes=100, max_leaves=4)
    placed(tree)
    tree.expand_root(np.full(7, np.nan, np.float32), float("nan"))
    tree.start_search(20)
    batch = tree.gather()
    assert tree.forest.arrays.paths[tree.slot, 0, 0]["edge"] == 0
    assert batch.counts.tolist() == [7]
