"""Gumbel choices: the compiled search, compared with its slow twin; sequential halving; and what is
learned."""

import math

import numpy as np
import pytest
from changed_settings import self_play, varied
from hypothesis import given
from hypothesis import strategies as st
from leaf_by_leaf import Answer, HashEvaluator, Leaf, LeafByLeaf, searched
from naive_mcts import Edge, Node, listed
from test_search import make_tree, subtree_of_node
from test_solver import NaiveSolver

from azselfplay.search.compiled import kernels_for
from azselfplay.search.mcts import best_scored, choose_action
from azselfplay.search.result import RootScores, SearchResult
from azselfplay.search.selection.gumbel import halving_schedule
from protocol.records import SHARES


class NaiveGumbel(NaiveSolver):
    """Sequential halving at the root, the improved policy below it."""

    def run_gumbel(self, simulations: int, noise: np.ndarray) -> dict[int, int]:
        _, self.root, value = self.look(self.positions)
        assert self.root is not None
        self.evaluation = {id(self.root): value}
        considered = min(self.settings.gumbel.considered, len(self.root.edges))
        for wanted in halving_schedule(considered, simulations):
            logits = [math.log(edge.prior) for edge in self.root.edges]
            scores = np.array(logits) + noise + self.sigma(self.root)
            order = [
                (not self.loses(self.root, edge), edge.visits == wanted, edge.visits < wanted, score)
                for edge, score in zip(self.root.edges, scores, strict=True)
            ]
            self.simulate_from(self.root.edges[order.index(max(order))])
        return {edge.action: edge.visits for edge in self.root.edges if edge.visits}

    def loses(self, node: Node, edge: Edge) -> bool:
        """Return whether `edge` is proven to lose."""
        return bool(self.settings.search.solver and edge.visits and self.result_of(node, edge) < 0)

    def is_proven(self, node: Node) -> bool:
        return self.settings.search.solver and super().is_proven(node)

    def correct(self, path: list[tuple[Node, Edge]]) -> None:
        if self.settings.search.solver:
            super().correct(path)

    def completed(self, node: Node) -> np.ndarray:
        """Return completed values (appendix D): an unvisited action gets a mixture of the network's value and
        the others'."""
        visited = [edge for edge in node.edges if edge.visits and not self.loses(node, edge)]
        visits = sum(edge.visits for edge in visited)
        mixed = self.evaluation[id(node)]
        if visited:
            mass = sum(float(edge.prior) for edge in visited)
            mean = sum(float(e.prior) * float(e.value_sum) / e.visits for e in visited) / mass
            mixed = (mixed + visits * mean) / (1 + visits)
        return np.array([float(e.value_sum) / e.visits if e.visits else mixed for e in node.edges])

    def sigma(self, node: Node) -> np.ndarray:
        most = max(0 if self.loses(node, edge) else edge.visits for edge in node.edges)
        return (50.0 + most) * self.settings.gumbel.c_scale * self.completed(node)

    def improved(self, node: Node) -> np.ndarray:
        scores = np.array([math.log(edge.prior) for edge in node.edges]) + self.sigma(node)
        if node is self.root:
            scores[[self.loses(node, edge) for edge in node.edges]] = -math.inf
        weights = np.exp(scores - scores.max())
        return weights / weights.sum()

    def next_edge(self, node: Node) -> Edge:
        visits = np.array([edge.visits for edge in node.edges])
        return node.edges[int(np.argmax(self.improved(node) - visits / (1 + visits.sum())))]

    def simulate_from(self, edge: Edge) -> None:
        positions, path = list(self.positions), [(self.root, edge)]
        while True:
            edge = path[-1][1]
            child = np.zeros(self.game.state_words, np.uint64)
            self.game.rules.play(positions[-1], edge.action, child)
            positions.append(child)
            if edge.child is None or self.is_proven(edge.child):
                break
            path.append((edge.child, self.next_edge(edge.child)))
        is_new = edge.child is None
        value = self.value_behind(edge, positions)
        if is_new and edge.child is not None:
            self.evaluation[id(edge.child)] = value if edge.child.mover == 0 else -value
        self.back_up(path, value)


GUMBEL = self_play(simulations=32, selection="gumbel")
QUIET = varied(GUMBEL, root_noise=0.0)


class Bandit(LeafByLeaf):
    """It prefers no action, but a player with a stone on cell `best` has the value 0.8."""

    def __init__(self, best: int) -> None:
        super().__init__()
        self.cell = np.uint64(1 << best)

    def answer(self, leaf: Leaf) -> Answer:
        count, (own, others) = len(leaf.actions), leaf.features[:2]
        value = 0.8 if own & self.cell else (-0.8 if others & self.cell else 0.0)
        return np.full(count, 1 / count, np.float32), value


class Dreads(Bandit):
    """The value is -0.8 instead."""

    def answer(self, leaf: Leaf) -> Answer:
        priors, value = super().answer(leaf)
        return priors, -value


run = searched

CHANGES = (
    *({}, {"root_noise": 1.0}, {"considered": 3}, {"c_scale": 0.3}),
    *({"solver": True}, {"solver": True, "look_ahead": True, "considered": 3}),
)


@pytest.mark.parametrize("name", ["tic_tac_toe", "connect_four", "dots_and_boxes_2x2"])
@pytest.mark.parametrize("changes", CHANGES)
def test_visits_and_the_improved_policy_equal_those_of_the_slow_twin(
    name: str, changes: dict[str, float]
) -> None:
    for simulations in (3, 40, 211):
        settings = varied(QUIET, simulations=simulations, **changes)
        tree = make_tree(name, settings)
        root = run(tree, HashEvaluator()).scores
        assert root is not None
        twin = NaiveGumbel(tree.game, tree.settings, [tree.state.copy()])
        expected = twin.run_gumbel(simulations, root.noise)
        assert {int(a): int(n) for a, n in zip(root.actions, root.visits, strict=True) if n} == expected
        assert subtree_of_node(tree, 0) == listed(twin.root)
        np.testing.assert_allclose(root.policy, twin.improved(twin.root), atol=1e-4)
        np.testing.assert_allclose(root.values, twin.completed(twin.root), atol=1e-5)


@pytest.mark.parametrize(
    ("considered", "simulations", "expected"),
    [
        # 4 actions, 2 phases of 8 simulations: 2 visits for each of 4, then 4 for each of 2.
        (4, 16, "0000 1111 22 33 44 55"),
        # 2 phases of 5: 1 visit for each of 4, then 2 for each of 2; what is left goes to those two.
        (4, 10, "0000 11 22 33"),
        # 3 phases of 5 and a bit: 8 once, then 4 once, then 2 twice.
        (8, 16, "00000000 1111 22 33"),
        (5, 3, "000"),
        (1, 4, "0123"),
    ],
)
def test_sequential_halving_by_hand(considered: int, simulations: int, expected: str) -> None:
    schedule = halving_schedule(considered, simulations)
    assert "".join(map(str, schedule)) == expected.replace(" ", "")


@given(considered=st.integers(1, 64), simulations=st.integers(1, 300))
def test_a_schedule_can_always_be_followed(considered: int, simulations: int) -> None:
    visits = [0] * considered
    for wanted in halving_schedule(considered, simulations).tolist():
        visits[visits.index(wanted)] += 1
    assert sum(visits) == simulations


def shared_out(weights: np.ndarray, total: int) -> np.ndarray:
    shares = np.empty(len(weights), np.int32)
    kernels_for("connect_four", "gumbel").share_out(weights / weights.sum(), total, shares)
    return shares


@given(st.lists(st.floats(0, 1e3), min_size=1, max_size=60).filter(lambda p: sum(p) > 1e-3))
def test_shares_sum_to_their_total_and_differ_from_the_policy_by_less_than_one(policy: list[float]) -> None:
    weights = np.array(policy)
    shares = shared_out(weights, SHARES)
    assert shares.sum() == SHARES
    assert (shares >= 0).all()
    assert np.abs(shares - weights / weights.sum() * SHARES).max() < 1 + 1e-6


@pytest.mark.parametrize("simulations", [8, 16])
def test_few_simulations_are_enough_to_learn_which_action_is_best(simulations: int) -> None:
    """The target puts most of its mass on the good action; its prior was one in seven."""
    tree = make_tree("connect_four", varied(QUIET, simulations=simulations))
    result = run(tree, Bandit(best=4))
    assert (int(result.visits.sum()), result.is_improved) == (SHARES, True)
    shares = dict(zip(result.actions.tolist(), result.visits.tolist(), strict=True))
    assert shares[4] > 0.7 * SHARES
    assert choose_action(result, 0, tree.settings, np.random.default_rng(0)) == 4
    assert 0.6 < result.value <= 0.8


def test_an_action_never_visited_keeps_the_share_that_its_prior_gives() -> None:
    """Its value is completed, so that little knowledge changes the policy little."""
    tree = make_tree("connect_four", varied(QUIET, simulations=4, considered=2))
    result = run(tree)
    assert result.visits.max() - result.visits.min() <= 1
    assert len(result.actions) == 7


def test_without_noise_two_searches_of_a_position_are_the_same_and_with_noise_they_are_not() -> None:
    for settings, is_same in ((QUIET, True), (GUMBEL, False)):
        tree = make_tree("connect_four", varied(settings, considered=3))
        first, second = run(tree, HashEvaluator()).scores, run(tree, HashEvaluator()).scores
        assert first is not None
        assert second is not None
        assert (first.visits.tolist() == second.visits.tolist()) == is_same


def test_a_search_begins_with_a_fresh_root_after_each_move() -> None:
    tree = make_tree("connect_four", QUIET)
    for _ in range(3):
        result = run(tree, HashEvaluator())
        assert result.scores is not None
        assert int(result.scores.visits.sum()) == 32
        tree.advance(int(result.actions[0]))
        assert not tree.is_expanded


def scores(visits: list[int], values: list[float], noise: list[float]) -> SearchResult:
    root = RootScores(
        np.array([3, 5, 9], np.uint16),
        np.array(visits, np.int32),
        np.array(values),
        np.array(values),
        np.exp(values),
        np.array(noise),
    )
    return SearchResult(root.actions, root.visits, 0.0, is_improved=True, scores=root)


def test_the_move_is_the_best_of_the_most_visited_with_noise_in_the_first_plies_only() -> None:
    result = scores([4, 4, 1], [1.0, 0.5, 7.0], [0.0, 2.0, 0.0])
    rng = np.random.default_rng(0)
    assert choose_action(result, 0, varied(GUMBEL, temperature_plies=1), rng) == 5
    assert choose_action(result, 1, varied(GUMBEL, temperature_plies=1), rng) == 3
    assert choose_action(result, 0, varied(QUIET, temperature_plies=1), rng) == 3


def test_a_move_that_is_proven_to_lose_is_neither_played_nor_taught_while_another_is_not() -> None:
    """Only 3 stops a line of three. The network prefers a loss, and thinks little of the position after 3."""
    settings = varied(QUIET, simulations=16, solver=True, look_ahead=True, c_scale=0.1)
    tree = make_tree("tic_tac_toe", settings, "1 5 2")
    only = 2  # the cell named 3
    priors = np.where(tree.legal_actions() == 6, 0.994, 0.0012).astype(np.float32)
    tree.expand_root(priors, 0.0)
    result = run(tree, Dreads(only))
    assert result.actions.tolist() == [only]
    assert choose_action(result, 99, settings, np.random.default_rng(0)) == only


def test_of_moves_that_lose_and_one_that_was_not_tried_the_latter_is_played() -> None:
    scores, visits = np.array([-np.inf, -3.0, -np.inf]), np.array([4, 0, 9], np.int32)
    assert best_scored(scores, np.zeros(3), visits, 1.0) == 1


ONLY_MOVE = ("4 1 4 1 4", 3)
"""Connect Four: only the middle column stops four in a column."""


def test_moves_that_were_not_tried_take_the_place_of_those_that_are_proven_to_lose() -> None:
    moves, only = ONLY_MOVE
    settings = varied(QUIET, simulations=16, solver=True, look_ahead=True, considered=2)
    tree = make_tree("connect_four", settings, moves)
    priors = np.full(7, 0.166, np.float32)
    priors[only] = 0.004
    tree.expand_root(priors, 0.2)
    result = run(tree, HashEvaluator())
    assert result.scores is not None
    assert result.actions.tolist() == [only]
    assert result.scores.visits[only] == 16 - 6, "each other move costs one simulation"


def test_what_is_proven_to_lose_says_nothing_about_moves_that_were_not_tried() -> None:
    settings = varied(QUIET, simulations=3, solver=True, look_ahead=True, considered=2)
    tree = make_tree("connect_four", settings, ONLY_MOVE[0])
    tree.expand_root(np.linspace(0.2, 0.1, 7, dtype=np.float32), 0.25)
    result = run(tree, HashEvaluator())
    assert result.scores is not None
    assert result.scores.values.tolist() == [-1, -1, -1, 0.25, 0.25, 0.25, 0.25]
    assert result.value == pytest.approx(0.25)
