"""The compiled search, compared with its slow twin, and the promises of `search.mcts`."""

from dataclasses import replace

import numpy as np
import pytest
from changed_settings import self_play, varied
from every_game import EVERY_GAME
from leaf_by_leaf import HashEvaluator, placed, searched
from naive_mcts import NaiveSearch, listed

from azselfplay.games import get_game
from azselfplay.games.spec import NO_ROOT, PLY_CAP
from azselfplay.search.evaluator import Evaluations, LocalEvaluator
from azselfplay.search.forest import Forest
from azselfplay.search.mcts import choose_action
from azselfplay.search.result import SearchResult
from azselfplay.search.selection.puct import dirichlet
from azselfplay.search.settings import resolve
from azselfplay.search.tree import SearchTree
from protocol.frames import LeafBatch
from protocol.settings import SelfPlaySettings

QUIET = self_play(simulations=80, root_noise=0.0)


def make_tree(
    name: str, settings: SelfPlaySettings = QUIET, moves: str = "", start: str = "", seed: int = 5
) -> SearchTree:
    game = get_game(name)
    return placed(
        SearchTree(Forest(game, resolve(settings, game)), np.random.default_rng(seed)), moves, start
    )


run = searched


@pytest.mark.parametrize("name", EVERY_GAME)
def test_trees_equal_those_of_the_slow_twin_node_by_node(name):
    for simulations in (80, 333):
        tree = make_tree(name, varied(QUIET, simulations=simulations))
        twin = NaiveSearch(tree.game, tree.settings, [tree.state.copy()])
        result = run(tree, HashEvaluator())
        expected = twin.run(simulations)
        assert dict(zip(result.actions.tolist(), result.visits.tolist(), strict=True)) == expected
        assert subtree_of_node(tree, 0) == listed(twin.root)
        assert float(tree.state_of_search["root_value_sum"]) == float(twin.root_value_sum)


@pytest.mark.parametrize("name", ["tic_tac_toe", "connect_four"])
def test_with_noise_visits_equal_those_of_a_slow_twin_with_the_same_noisy_priors(name):
    tree = make_tree(name, varied(QUIET, simulations=200, root_noise=0.25, c_init=2.5, c_base=100.0))
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


@pytest.mark.parametrize("name", EVERY_GAME)
def test_a_kept_subtree_adds_its_visits_and_changes_no_statistics(name):
    tree = make_tree(name)
    first = run(tree, HashEvaluator())
    best = int(first.actions[np.argmax(first.visits)])
    (child,) = (int(edge["child"]) for edge in tree.edges_of(0) if edge["action"] == best)
    before = subtree_of_node(tree, child)
    tree.advance(best)
    assert subtree_of_node(tree, 0) == before
    assert tree.root_visit_count == first.visits.max()
    second = run(tree, HashEvaluator())
    assert second.visits.sum() == 80 + first.visits.max() - 1


def subtree_of_node(tree, node):
    return [
        (
            int(e["action"]),
            float(e["prior"]),
            int(e["visits"]),
            float(e["value_sum"]),
            subtree_of_node(tree, int(e["child"])) if e["child"] >= 0 else int(e["child"]),
        )
        for e in tree.edges_of(node).copy()
    ]


@pytest.mark.parametrize("root", ["puct", "gumbel"])
@pytest.mark.parametrize(
    ("name", "moves", "start", "shares"),
    [
        ("tic_tac_toe", "1 4 2 5", "", {"3": 1}),
        ("tic_tac_toe", "1 4 9 5 2", "", {"6": 1}),
        ("connect_four", "1 2 1 2 1 2", "", {"1": 1}),
        ("connect_four", "1 2 1 2 7 2 1", "", {"2": 1}),
        ("chess", "", "6k1/5ppp/8/8/8/8/8/R6K w - - 0 1", {"a1a8": 1}),
        ("chess", "", "r6k/8/8/8/8/8/5PPP/6K1 b - - 0 1", {"a8a1": 1}),
        ("tic_tac_toe", "1 6 2 7 5 4", "", {"3": 1, "8": 1, "9": 1}),
        ("connect_four", "2 2 3 3 4 4", "", {"1": 1, "5": 1}),
        ("chess", "", "7k/8/6K1/8/8/8/8/1Q3R2 w - - 0 1", {"b1b8": 1, "f1f8": 1, "b1b2": 0}),
    ],
)
def test_all_wins_in_one_share_the_visits_evenly_for_either_side(name, moves, start, shares, root):
    """The remainder goes to the lowest index; a slow twin tries every legal action."""
    tree = make_tree(name, varied(QUIET, selection=root), moves, start)
    result = run(tree)
    wins = []
    for action in sorted(tree.legal_actions().tolist()):
        positions = np.array([tree.state, tree.state])
        tree.game.rules.play(positions[0], action, positions[1])
        count = tree.game.rules.legal_actions(positions, 2, np.zeros(tree.game.max_legal, np.uint16))
        reason = tree.game.rules.end_reason(positions, 2, count, NO_ROOT)
        wins += [action] if reason and tree.game.end_reasons[reason].value < 0 else []
    assert result.actions.tolist() == wins
    total = 80 if root == "puct" else 10_000
    assert (int(result.visits.sum()), result.value) == (total, 1.0)
    assert result.visits.max() - result.visits.min() <= 1
    assert sorted(result.visits.tolist(), reverse=True) == result.visits.tolist()
    texts = {tree.game.notation.action_to_text(tree.state, int(one)) for one in result.actions}
    assert texts >= {text for text, wins_at_once in shares.items() if wins_at_once}
    assert not texts & {text for text, wins_at_once in shares.items() if not wins_at_once}
    tree.advance(int(result.actions[0]))
    mover = int(tree.game.rules.side_to_move(tree.state))
    assert tree.end_reason() not in (None, PLY_CAP)
    assert tree.outcome() == (-1 if mover == 0 else 1)


def test_the_ply_cap_ends_search_lines_and_the_game_as_a_draw():
    tree = make_tree("connect_four", replace(QUIET, max_plies=2), "1 2")
    assert (tree.end_reason(), tree.outcome()) == (PLY_CAP, 0)
    tree = make_tree("connect_four", replace(QUIET, max_plies=2))
    twin = NaiveSearch(tree.game, tree.settings, [tree.state.copy()])
    run(tree, HashEvaluator())
    twin.run(80)
    found = subtree_of_node(tree, 0)
    assert found == listed(twin.root)
    second = [edge for first in found for edge in first[4] if edge[2]]
    assert {(edge[3], edge[4]) for edge in second} == {(0.0, -2)}


def test_root_noise_mixes_a_distribution_into_the_priors():
    tree = make_tree("connect_four", varied(QUIET, root_noise=0.25))
    tree.expand_root(np.full(7, 1 / 7, np.float32), 0.0)
    tree.begin()
    priors = tree.edges_of(0)["prior"]
    assert priors.sum() == pytest.approx(1, abs=1e-5)
    assert (priors >= 0.75 / 7 - 1e-6).all()
    assert len(np.unique(priors)) == 7


@pytest.mark.parametrize(("alpha", "least", "most"), [(0.01, 0.8, 1.0), (1000.0, 1 / 7, 0.2)])
def test_the_dirichlet_alpha_says_how_even_the_noise_is(alpha: float, least: float, most: float) -> None:
    """`root_noise` 1 replaces the priors by noise; a small alpha gives nearly all of it to one move."""
    tree = make_tree("connect_four", varied(QUIET, root_noise=1.0, dirichlet_alpha=alpha))
    tree.expand_root(np.full(7, 1 / 7, np.float32), 0.0)
    tree.begin()
    assert least < tree.edges_of(0)["prior"].max() < most


@pytest.mark.parametrize("alpha", [0.03, 0.1, 0.3, 1.0, 20.0])
@pytest.mark.parametrize("count", [1, 7, 35])
def test_noise_is_numpys_dirichlet_and_draws_as_many_random_numbers(alpha: float, count: int) -> None:
    ours, numpys = np.random.default_rng(1), np.random.default_rng(1)
    for _ in range(20):
        assert dirichlet(ours, alpha, count).tolist() == numpys.dirichlet(np.full(count, alpha)).tolist()
    assert ours.random() == numpys.random()


@pytest.mark.parametrize(("temperature", "shares"), [(1.0, [0.1, 0.6, 0.3]), (0.5, [0.022, 0.783, 0.196])])
def test_moves_are_sampled_by_visits_to_the_power_of_1_over_temperature_then_greedy(temperature, shares):
    result = SearchResult(np.array([3, 5, 9], np.uint16), np.array([10, 60, 30], np.int32), 0.0)
    settings = self_play(temperature_plies=10, temperature=temperature)
    rng = np.random.default_rng(0)
    drawn = [choose_action(result, 0, settings, rng) for _ in range(4000)]
    assert [drawn.count(a) / 4000 for a in (3, 5, 9)] == pytest.approx(shares, abs=0.02)
    assert {choose_action(result, 10, settings, rng) for _ in range(50)} == {5}


def test_a_failing_network_fails_the_searches_that_wait_for_it():
    def infer(batch: LeafBatch) -> Evaluations:
        raise RuntimeError("device lost")

    with pytest.raises(RuntimeError, match="device lost"):
        run(make_tree("tic_tac_toe"), LocalEvaluator(infer, 8))


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"simulations": 0}, "simulations"),
        *(({"seed": seed}, "seed") for seed in (-1, 2**63, 2**70)),
        ({"fpu_reduction": 2.5}, "fpu_reduction"),
        ({"root_noise": 1.5}, "root_noise"),
        ({"position": "no board"}, "start"),
        ({"position": "xxx/oo./..."}, "over"),
        ({"selection": "ucb"}, r"search\.selection"),
        ({"selection": "gumbel", "considered": 0}, r"gumbel\.considered"),
        ({"look_ahead": True}, r"search\.look_ahead is set, but needs self_play\.search\.solver"),
    ],
)
def test_settings_out_of_range_are_named(change, word):
    with pytest.raises(ValueError, match=word):
        resolve(varied(SelfPlaySettings(), **change), get_game("tic_tac_toe"))
