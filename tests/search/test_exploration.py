"""Exploration terms other than AlphaZero's, in the compiled search and in its slow twin."""

import numpy as np
import pytest
from changed_settings import varied
from leaf_by_leaf import HashEvaluator
from naive_mcts import NaiveSearch
from test_search import QUIET, make_tree, run

GAMES = ("tic_tac_toe", "connect_four")


@pytest.mark.parametrize("name", GAMES)
@pytest.mark.parametrize("exploration", ["alphago_zero", "ucb"])
@pytest.mark.parametrize("c_puct", [0.5, 2.5])
def test_visits_equal_those_of_the_slow_twin(name, exploration, c_puct):
    tree = make_tree(name, varied(QUIET, exploration=exploration, c_puct=c_puct, simulations=333))
    twin = NaiveSearch(tree.game, tree.settings, [tree.state.copy()])
    result = run(tree, HashEvaluator())
    assert dict(zip(result.actions.tolist(), result.visits.tolist(), strict=True)) == twin.run(333)


@pytest.mark.parametrize("name", GAMES)
def test_visits_with_noise_equal_those_of_the_slow_twin(name):
    tree = make_tree(name, varied(QUIET, root_noise=0.25, simulations=200))
    twin = NaiveSearch(tree.game, tree.settings, [tree.state.copy()])
    result = run(tree, HashEvaluator())
    _, twin.root, value = twin.look(twin.positions)
    twin.root_value_sum = np.float32(value)
    for edge, noisy in zip(twin.root.edges, tree.edges_of(0), strict=True):
        edge.prior = noisy["prior"]
    for _ in range(200):
        twin.simulate()
    expected = {edge.action: edge.visits for edge in twin.root.edges if edge.visits}
    assert dict(zip(result.actions.tolist(), result.visits.tolist(), strict=True)) == expected
