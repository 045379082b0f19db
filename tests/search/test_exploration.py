"""Exploration terms other than AlphaZero's, in the compiled search and in its slow twin."""

import numpy as np
import pytest
from changed_settings import varied
from leaf_by_leaf import HashEvaluator
from naive_mcts import NaiveSearch
from test_search import QUIET, make_tree, run

OTHERS = [{"exploration": one, "c_puct": c_puct} for one in ("alphago_zero", "ucb") for c_puct in (0.5, 2.5)]


@pytest.mark.parametrize("name", ["tic_tac_toe", "connect_four"])
@pytest.mark.parametrize("changes", [*OTHERS, {"root_noise": 0.25}], ids=str)
def test_visits_equal_those_of_the_slow_twin(name, changes):
    """With noise, those of a twin with the same noisy priors."""
    tree = make_tree(name, varied(QUIET, simulations=200, **changes))
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
