"""Exploration terms other than AlphaZero's, in the compiled search and in its slow twin."""

import math

import numpy as np
import pytest
from changed_settings import varied
from leaf_by_leaf import HashEvaluator
from naive_mcts import Edge, NaiveSearch, Node
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


def test_alphazeros_term_with_a_far_base_is_alphago_zeros():
    far = varied(QUIET, c_base=1e9, c_init=1.75)
    old = varied(QUIET, exploration="alphago_zero", c_puct=1.75)
    found = [run(make_tree("connect_four", one), HashEvaluator()).visits.tolist() for one in (far, old)]
    assert found[0] == found[1]


class AsPublished(NaiveSearch):
    """Values are in [0, 1], as in AlphaZero's pseudocode; 0 for a loss."""

    def best(self, node: Node, visits: int, value: float, reduction: float) -> Edge:
        visited = sum(float(edge.prior) for edge in node.edges if edge.visits)
        unvisited = value - reduction * math.sqrt(visited)

        def score(edge: Edge) -> float:
            q = float(edge.value_sum) / edge.visits if edge.visits else unvisited
            return (1 + q) / 2 + self.exploration(edge, visits, edge.visits)

        return max(node.edges, key=score)


@pytest.mark.parametrize("name", GAMES)
def test_alphazeros_constant_for_values_from_0_to_1_is_twice_as_large_here(name):
    def visits(c_init: float) -> dict[int, int]:
        result = run(
            make_tree(name, varied(QUIET, c_init=c_init, c_base=1e9, simulations=333)), HashEvaluator()
        )
        return dict(zip(result.actions.tolist(), result.visits.tolist(), strict=True))

    tree = make_tree(name, varied(QUIET, c_init=1.25, c_base=1e9, simulations=333))
    published = AsPublished(tree.game, tree.settings, [tree.state.copy()]).run(333)
    assert visits(2.5) == published != visits(1.25)
