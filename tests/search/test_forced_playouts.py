"""Forced playouts at a root with noise, and the target without them (KataGo, section 3.2)."""

import numpy as np
import pytest
from changed_settings import varied
from leaf_by_leaf import HashEvaluator
from naive_mcts import NaiveSearch, hashed_evaluation
from test_search import QUIET, make_tree, run

from azselfplay.search.layout import EDGE, TERMINAL
from azselfplay.search.selection import puct
from azselfplay.search.selection.pruning import without_forced, without_noise
from azselfplay.search.tree import NetView

FORCED = varied(QUIET, root_noise=0.25, forced_playouts=2.0, simulations=200)


def by_action(actions: np.ndarray, visits: np.ndarray) -> dict[int, int]:
    found = dict(zip(actions.tolist(), visits.tolist(), strict=True))
    return {action: count for action, count in found.items() if count}


@pytest.mark.parametrize("name", ["tic_tac_toe", "connect_four"])
@pytest.mark.parametrize("exploration", ["alphazero", "alphago_zero", "ucb"])
@pytest.mark.parametrize("forced", [2.0, 8.0])
def test_search_and_target_equal_those_of_the_slow_twin(name, exploration, forced):
    tree = make_tree(name, varied(FORCED, exploration=exploration, forced_playouts=forced))
    result = run(tree, HashEvaluator())
    edges = tree.edges_of(0)
    twin = NaiveSearch(tree.game, tree.settings, [tree.state.copy()])
    _, twin.root, value = twin.look(twin.positions)
    twin.root_value_sum = np.float32(value)
    for edge, noisy in zip(twin.root.edges, edges, strict=True):
        edge.prior = noisy["prior"]
    for _ in range(200):
        twin.simulate()
    expected = {edge.action: edge.visits for edge in twin.root.edges if edge.visits}
    assert by_action(edges["action"], edges["visits"]) == expected
    assert by_action(result.actions, result.visits) == twin.pruned()
    assert result.is_pruned == (twin.pruned() != expected)


@pytest.mark.parametrize("name", ["tic_tac_toe", "connect_four"])
@pytest.mark.parametrize("exploration", ["alphazero", "alphago_zero", "ucb"])
def test_visits_that_noise_caused_are_taken_out_as_by_the_slow_twin(name, exploration):
    """Here nothing is forced."""
    settings = varied(FORCED, exploration=exploration, forced_playouts=0.0, prune_noise=True, root_noise=0.5)
    tree = make_tree(name, settings)
    leaf = tree.root_leaf()
    tree.expand_root(*hashed_evaluation(leaf.features, leaf.actions))
    clean = list(tree.view_of_net().priors)
    result = run(tree, HashEvaluator())
    edges = tree.edges_of(0)
    twin = NaiveSearch(tree.game, tree.settings, [tree.state.copy()])
    _, twin.root, _ = twin.look(twin.positions)
    for edge, noisy in zip(twin.root.edges, edges, strict=True):
        edge.prior, edge.visits, edge.value_sum = noisy["prior"], int(noisy["visits"]), noisy["value_sum"]
    expected = twin.without_noise(clean)
    assert by_action(result.actions, result.visits) == expected
    assert result.is_pruned
    assert int(result.visits.sum()) < 200


def test_without_noise_the_most_visited_keeps_all_and_what_noise_lowered_too():
    edges = np.zeros(4, EDGE)
    edges["visits"], edges["prior"] = [90, 10, 6, 4], [0.4, 0.2, 0.2, 0.2]
    edges["value_sum"] = edges["visits"] * np.array([0.5, -0.9, -0.9, -0.9], np.float32)
    clean = np.array([0.3, 0.1, 0.3, 0.2], np.float32)
    left = without_noise(edges, edges["visits"], clean, varied(FORCED, forced_playouts=0.0))
    assert left.tolist() == [90, 0, 6, 4]


def test_what_is_left_with_one_forced_visit_loses_it_and_a_good_move_keeps_all():
    edges = np.zeros(3, EDGE)
    edges["visits"], edges["prior"] = [90, 4, 6], [0.6, 0.05, 0.35]
    edges["value_sum"] = edges["visits"] * np.array([0.5, -0.9, 0.6], np.float32)
    left = without_forced(edges, varied(FORCED, exploration="alphago_zero"))
    assert left.tolist() == [90, 0, 6]


def test_a_favourite_that_is_proven_to_lose_is_no_measure_for_the_others():
    """Beside its value of -1 every visit would seem wanted, also those that only the noise caused."""
    settings = varied(FORCED, forced_playouts=2.0, prune_noise=True, solver=True, exploration="alphago_zero")
    tree = make_tree("tic_tac_toe", settings)
    clean = np.full(9, 0.05, np.float32)
    clean[:3] = 0.35, 0.3, 0.05
    tree.expand_root(clean, 0.0)
    edges = tree.edges_of(0)
    edges["visits"][:3], edges["prior"][:3], edges["child"][0] = (30, 26, 8), (0.3, 0.25, 0.2), TERMINAL
    edges["value_sum"][:3] = -30, 0.3 * 26, -0.5 * 8
    tree.state_of_search["root_visits"] = 65
    left = puct.result(tree, NetView(edges["action"], clean, 0.0), is_cheap=False)
    assert by_action(left.actions, left.visits) == {1: 26}


@pytest.mark.parametrize("change", [{"root_noise": 0.0}, {"forced_playouts": 0.0}], ids=str)
def test_without_noise_or_forcing_the_target_is_all_visits(change):
    result = run(make_tree("connect_four", varied(FORCED, **change)), HashEvaluator())
    assert (int(result.visits.sum()), result.is_pruned) == (200, False)


def test_without_noise_nothing_is_forced():
    quiet = [varied(FORCED, root_noise=0.0, forced_playouts=k) for k in (0.0, 9.0)]
    plain, forced = (run(make_tree("connect_four", one), HashEvaluator()) for one in quiet)
    assert plain.visits.tolist() == forced.visits.tolist()
