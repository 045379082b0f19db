"""A search reports how far its result differs from the network's answer, before any noise."""

import math

import numpy as np
import pytest
from changed_settings import self_play, varied
from hypothesis import given
from hypothesis import strategies as st
from leaf_by_leaf import HashEvaluator, placed
from leaf_by_leaf import searched as searched_by
from naive_mcts import hashed_evaluation

from azselfplay.games import get_game
from azselfplay.search.forest import Forest
from azselfplay.search.result import SearchResult, search_stats
from azselfplay.search.settings import resolve
from azselfplay.search.tree import NetView, SearchTree


def naive_kl(visits: dict[int, int], priors: dict[int, float]) -> float:
    """Return KL(shares of the visits || priors) in nats; priors count as at least 1e-8."""
    all_visits, all_priors = sum(visits.values()), sum(priors.values())
    kl = 0.0
    for action, count in visits.items():
        share = count / all_visits
        kl += share * math.log(share / max(1e-8, priors[action] / all_priors))
    return max(0.0, kl)


def naive_differs(visits: dict[int, int], priors: dict[int, float]) -> bool:
    """Return whether some action had a larger prior than the most visited one (ties go to the lowest
    index)."""
    most = min(action for action, count in visits.items() if count == max(visits.values()))
    return any(prior > priors[most] for prior in priors.values())


GAME = get_game("connect_four")
SETTINGS = self_play(simulations=60, root_noise=0.25)
TINY_PRIOR = st.sampled_from([0.0, 1e-9, 1e-8, 0.25, 0.5])


@given(
    st.lists(st.tuples(st.integers(0, 40), TINY_PRIOR | st.floats(0, 1, width=32)), min_size=1, max_size=9),
    st.permutations(range(9)),
)
def test_agrees_with_the_slow_twin(moves: list[tuple[int, float]], order: list[int]) -> None:
    """This holds for any order of the legal actions, and with priors of 0."""
    moves[0] = (max(1, moves[0][0]), max(0.25, moves[0][1]))
    actions = sorted(order[: len(moves)], key=order.index)
    visits = {action: count for action, (count, _) in sorted(zip(actions, moves, strict=True)) if count}
    priors = {action: float(np.float32(prior)) for action, (_, prior) in zip(actions, moves, strict=True)}
    view = NetView(np.array(actions, np.uint16), np.array(list(priors.values()), np.float32), 0.5)
    counts = np.array(list(visits.values()), np.int32)
    found = search_stats(view, np.array(list(visits), np.uint16), counts, (2.0, 3))
    assert found.kl == pytest.approx(naive_kl(visits, priors), rel=1e-5, abs=1e-6)
    assert found.differs == naive_differs(visits, priors)
    assert (found.value, found.mean_depth, found.max_depth) == (0.5, 2.0, 3)


def searched(tree: SearchTree) -> SearchResult:
    return searched_by(tree, HashEvaluator())


def fresh_tree(**changes: object) -> SearchTree:
    settings = resolve(varied(SETTINGS, **changes), GAME)  # type: ignore[arg-type]
    return placed(SearchTree(Forest(GAME, settings), np.random.default_rng(5)))


def said_by_the_network(tree: SearchTree) -> tuple[dict[int, float], float]:
    """Return priors and value of the root, evaluated anew."""
    leaf = tree.root_leaf()
    priors, value = hashed_evaluation(leaf.features, leaf.actions)
    return dict(zip(leaf.actions.tolist(), priors.tolist(), strict=True)), value


@pytest.mark.parametrize("changes", [{}, {"selection": "gumbel"}], ids=str)
def test_a_search_is_compared_with_the_network_without_noise(changes: dict[str, object]) -> None:
    """Its subtree was kept, or the root is new (`gumbel`)."""
    tree = fresh_tree(**changes)
    for _ in range(6):
        priors, value = said_by_the_network(tree)
        result = searched(tree)
        visits = dict(zip(result.actions.tolist(), result.visits.tolist(), strict=True))
        assert result.stats is not None
        assert result.stats.kl == pytest.approx(naive_kl(visits, priors), rel=1e-4)
        assert result.stats.differs == naive_differs(visits, priors)
        assert result.stats.value == pytest.approx(value, abs=1e-5)
        tree.advance(int(result.actions[0]))


def all_visits(tree: SearchTree) -> int:
    """Return the visits of all edges of the tree."""
    return sum(int(tree.edges_of(node)["visits"].sum()) for node in range(tree.node_count))


@pytest.mark.parametrize("root", ["puct", "gumbel"])
def test_depths_are_those_of_all_paths(root: str) -> None:
    """Each simulation leaves a visit on every edge of its path, so the sum of visits is the sum of depths."""
    tree = fresh_tree(selection=root, simulations=200)
    result = searched(tree)

    def deepest(node: int) -> int:
        tried = [edge for edge in tree.edges_of(node) if edge["visits"]]
        return max((1 + (deepest(edge["child"]) if edge["child"] >= 0 else 0) for edge in tried), default=0)

    assert result.stats is not None
    assert result.stats.mean_depth == all_visits(tree) / 200
    assert result.stats.max_depth == deepest(0) > 2


def test_depths_are_of_the_new_simulations_only() -> None:
    """The visits of a kept subtree were counted when it was searched."""
    tree = fresh_tree()
    tree.advance(int(searched(tree).actions[3]))
    assert tree.root_visit_count > 1
    before = all_visits(tree)
    result = searched(tree)
    after = all_visits(tree)
    assert result.stats is not None
    assert result.stats.mean_depth == (after - before) / 60


def test_a_win_in_one_is_compared_with_its_prior() -> None:
    """It has all visits, whatever its prior."""
    tree = fresh_tree()
    for move in (0, 1, 0, 1, 0, 1):
        tree.advance(move)
    priors, value = said_by_the_network(tree)
    result = searched(tree)
    assert result.stats is not None
    assert result.stats.kl == pytest.approx(-np.log(priors[0] / sum(priors.values())), rel=1e-5)
    assert result.stats.differs == (priors[0] < max(priors.values()))
    assert result.stats.value == pytest.approx(value, abs=1e-6)
    assert (result.stats.mean_depth, result.stats.max_depth) == (1.0, 1)
