"""Thompson sampling: the compiled search, compared with its slow twin, and what a user expects of it."""

import math

import numpy as np
import pytest
from changed_settings import self_play, varied
from leaf_by_leaf import HashEvaluator, searched
from naive_mcts import Edge, NaiveSearch, Node, listed
from test_search import make_tree, subtree_of_node

from azselfplay.search.compiled import kernels_for
from azselfplay.search.selection.thompson import PRIOR_SCALE, PRIOR_VISITS, VALUE_SPREAD

WORD = (1 << 64) - 1


class SplitMix:
    """The random number generator as published, on Python integers."""

    def __init__(self, state: int = 0) -> None:
        self.state = state

    def word(self) -> int:
        self.state = (self.state + 0x9E3779B97F4A7C15) & WORD
        x = self.state
        x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & WORD
        x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & WORD
        return x ^ (x >> 31)

    def unit(self) -> float:
        return ((self.word() >> 11) + 1) / (1 << 53)

    def normal(self) -> float:
        return math.sqrt(-2 * math.log(self.unit())) * math.cos(2 * math.pi * self.unit())


class NaiveThompson(NaiveSearch):
    """Every edge has a normal posterior; the largest sample is chosen, at the root and below it."""

    def run_thompson(self, simulations: int, seed: int = 0) -> dict[int, int]:
        self.random = SplitMix(seed)
        return self.run(simulations)

    def look(self, positions):
        over, node, value = super().look(positions)
        if node is not None:
            node.own = value
        return over, node, value

    def best(self, node: Node, visits: int, value: float, reduction: float) -> Edge:  # noqa: ARG002
        priors = [float(edge.prior) for edge in node.edges]
        mean_log = sum(prior * math.log(prior) for prior in priors)
        samples = []
        for edge, prior in zip(node.edges, priors, strict=True):
            before = min(1.0, max(-1.0, node.own + PRIOR_SCALE * (math.log(prior) - mean_log)))
            seen = PRIOR_VISITS + edge.visits
            mean = (PRIOR_VISITS * before + float(edge.value_sum)) / seen
            samples.append(mean + self.random.normal() * VALUE_SPREAD / math.sqrt(seen))
        return node.edges[samples.index(max(samples))]


THOMPSON = self_play(simulations=200, selection="thompson", root_noise=0.0)


@pytest.mark.parametrize("name", ["tic_tac_toe", "connect_four", "dots_and_boxes_2x2"])
def test_trees_equal_those_of_the_slow_twin_node_by_node(name: str) -> None:
    """That includes a game in which a player moves twice. Sums in float32 give a node's own value to about
    1e-6, so two samples would have to be that close for the trees to differ."""
    tree = make_tree(name, THOMPSON)
    twin = NaiveThompson(tree.game, tree.settings, [tree.state.copy()])
    searched(tree, HashEvaluator())
    twin.run_thompson(200)
    assert subtree_of_node(tree, 0) == listed(twin.root)


def test_spread_falls_with_visits_so_that_the_best_edge_takes_most_of_them() -> None:
    tree = make_tree("connect_four", varied(THOMPSON, simulations=2000))
    searched(tree, HashEvaluator())
    edges = np.sort(tree.edges_of(0), order="visits")
    values = edges["value_sum"] / edges["visits"]
    assert edges["visits"][-1] > 2000 / 2
    assert (values[-1], values[0]) == (values.max(), values.min())


def test_a_node_with_many_visits_is_known_by_their_mean_because_its_own_value_is_lost_in_rounding() -> None:
    """After a million visits the difference of float32 sums is noise, here -12."""
    tree = make_tree("connect_four", THOMPSON)
    searched(tree, HashEvaluator())
    edges = tree.edges_of(0)
    edges["visits"], edges["value_sum"] = 1_000_000, 500_000
    edges["visits"][3], edges["value_sum"][3] = 0, 0
    tree.arrays.state[0]["root_value_sum"] = edges["value_sum"].sum() - 12
    choose, first = kernels_for("connect_four", "thompson").choose_root, tree.arrays.nodes[0]["first_edge"]
    chosen = [choose(tree.arrays) - first for _ in range(200)]
    assert 40 < chosen.count(3) < 160
