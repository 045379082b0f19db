"""The variation that people are shown of a searched tree."""

import numpy as np
from changed_settings import self_play
from leaf_by_leaf import placed
from leaf_by_leaf import searched as searched_by

from azselfplay.games import get_game
from azselfplay.search.evaluator import UniformEvaluator
from azselfplay.search.forest import Forest
from azselfplay.search.mcts import choose_action
from azselfplay.search.result import SearchResult
from azselfplay.search.settings import resolve
from azselfplay.search.tree import SearchTree
from protocol.settings import SelfPlaySettings

GAME = get_game("connect_four")


def searched(simulations: int) -> tuple[SearchTree, SearchResult]:
    settings = self_play(simulations=simulations, root_noise=0.0, temperature_plies=0)
    tree = placed(SearchTree(Forest(GAME, resolve(settings, GAME)), np.random.default_rng(0)))
    return tree, searched_by(tree, UniformEvaluator())


def test_the_variation_is_what_would_be_played_move_after_move() -> None:
    tree, result = searched(300)
    variation = tree.principal_variation()
    assert variation[0] == choose_action(result, 0, tree.settings, np.random.default_rng(0))
    for action in variation:
        edges = tree.edges_of(0)
        order = np.lexsort((edges["action"], -edges["visits"]))
        assert edges["action"][order[0]] == action
        tree.advance(action)
    assert not tree.is_expanded or tree.edges_of(0)["visits"].max() == 0


def test_a_tree_that_was_not_searched_has_no_variation() -> None:
    tree = placed(SearchTree(Forest(GAME, resolve(SelfPlaySettings(), GAME)), np.random.default_rng(0)))
    assert tree.principal_variation() == []
    tree.expand_root(np.full(7, 1 / 7, np.float32), 0.0)
    assert tree.principal_variation() == []
