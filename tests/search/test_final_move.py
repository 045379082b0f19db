"""The move played after a search: by visits, by value, by both, or by a lower bound."""

import numpy as np
import pytest
from changed_settings import self_play, varied
from leaf_by_leaf import HashEvaluator
from test_search import QUIET, make_tree, run

from azselfplay.search.mcts import agrees, choose_action, final_action, secure_child
from azselfplay.search.result import Candidates, SearchResult


def candidates(visits: list[int], values: list[float]) -> Candidates:
    """Return candidates for the actions 10, 11, 12, ..."""
    actions = np.arange(10, 10 + len(visits)).astype(np.uint16)
    return Candidates(actions, np.array(visits, np.int32), np.array(values))


@pytest.mark.parametrize(
    ("rule", "visits", "values", "action"),
    [
        ("robust", [40, 40, 20], [0.1, 0.2, 0.9], 11),
        ("robust", [40, 40, 20], [0.2, 0.2, 0.9], 10),
        ("max", [40, 40, 20], [0.1, 0.2, 0.9], 12),
        ("max", [40, 41, 20], [0.9, 0.9, 0.9], 11),
        ("max_robust", [40, 40, 20], [0.1, 0.2, 0.9], 11),
        ("max_robust", [40, 40, 20], [0.1, 0.9, 0.2], 11),
        ("secure", [100, 4, 20], [0.5, 0.8, 0.5], 10),
        ("secure", [100, 4, 20], [0.5, 1.0, 0.5], 11),
    ],
)
def test_each_rule_names_its_child(rule, visits, values, action):
    assert final_action(candidates(visits, values), self_play(final_move=rule)) == action


def test_the_larger_its_constant_the_more_visits_a_secure_child_has():
    chosen = candidates([100, 30, 4], [0.3, 0.45, 0.7])
    found = [int(chosen.actions[secure_child(chosen, c)]) for c in (0.1, 1, 8)]
    assert found == [12, 11, 10]


def test_a_rule_plays_only_when_nothing_is_sampled():
    known = candidates([10, 90], [0.9, 0.1])
    result = SearchResult(known.actions, known.visits, 0.0, candidates=known)
    settings, rng = self_play(final_move="max", temperature_plies=5), np.random.default_rng(0)
    assert {choose_action(result, 5, settings, rng) for _ in range(20)} == {10}
    assert [choose_action(result, 4, settings, rng) for _ in range(400)].count(10) < 80


def test_a_max_robust_search_goes_on_until_both_agree_or_its_bound():
    settings = varied(QUIET, final_move="max_robust", final_extra=64, temperature_plies=0)
    found = []
    for moves in ("", "1", "1 2", "4", "4 4", "4 4 3", "1 7 2", "3 3 3", "5 2"):
        tree = make_tree("connect_four", settings, moves)
        result = run(tree, HashEvaluator())
        plain = run(make_tree("connect_four", QUIET, moves), HashEvaluator())
        assert (result.visits.tolist(), result.value) == (plain.visits.tolist(), plain.value)
        assert result.stats == plain.stats
        spent = int(tree.edges_of(0)["visits"].sum()) - 80
        assert 0 <= spent <= 64
        assert result.candidates is not None
        assert agrees(result.candidates) or spent == 64
        tree.advance(choose_action(result, tree.ply, tree.settings, np.random.default_rng(0)))
        assert not tree.is_expanded or spent == 0
        found.append(spent)
    assert min(found) == 0 < max(found), "they differ in length"


@pytest.mark.parametrize(
    ("moves", "simulations", "final_extra", "proof"),
    [("2 8 6 5", 16, 200, 1), ("6 9 8 1", 16, 64, 0), ("1 6 4", 12, 64, 0), ("3 6 2", 56, 64, -1)],
)
def test_what_a_search_proves_while_it_goes_on_counts(moves, simulations, final_extra, proof):
    """A win is played, a loss only if all moves lose, and the target is that of a search that knew it."""
    settings = varied(QUIET, simulations=simulations, final_move="max_robust", temperature_plies=0)
    tree = make_tree("tic_tac_toe", varied(settings, solver=True, final_extra=final_extra), moves)
    result = run(tree, HashEvaluator())
    assert (np.sign(tree.proof), tree.edges_of(0)["visits"].sum() > simulations) == (proof, True)
    action = choose_action(result, tree.ply, tree.settings, np.random.default_rng(0))
    assert np.sign(tree.edge_proofs(0)[tree.edges_of(0)["action"].tolist().index(action)]) == proof
    assert result.visits.sum() <= simulations
    assert not proof or result.actions.tolist() == tree.proven_actions().tolist()


def test_a_search_whose_move_is_sampled_is_not_extended():
    settings = varied(QUIET, final_move="max_robust", final_extra=64, temperature_plies=30)
    for moves in ("", "1", "1 2", "4", "4 4"):
        tree = make_tree("connect_four", settings, moves)
        run(tree, HashEvaluator())
        assert tree.edges_of(0)["visits"].sum() == 80
