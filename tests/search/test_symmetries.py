"""Leaves evaluated under random symmetries: the network's input is the transformed game, and priors are
mapped back."""

import asyncio

import numpy as np
import pytest
from changed_settings import self_play
from coded import NAME as CODED
from leaf_by_leaf import Answer, LeafByLeaf

from azselfplay.games import get_game
from azselfplay.games.spec import Game
from azselfplay.search.evaluator import Leaf
from azselfplay.search.forest import Forest
from azselfplay.search.pool import SearchPool
from azselfplay.search.settings import resolve
from azselfplay.search.tree import SearchTree

HISTORY = 2
PLAYED = [
    ("tic_tac_toe", [0, 5, 6]),
    (CODED, [0, 5, 6]),
    ("connect_four", [0, 0, 2, 5, 1]),
    ("dots_and_boxes", [0, 5, 13, 17, 3]),  # sides of boxes swap
    pytest.param("dots_and_boxes_9x8", [0, 8, 81, 80, 150, 12, 3], marks=pytest.mark.nightly),
    ("go_9x9", [21, 40, 81, 3]),  # two words a plane; the pass stays a pass
]
"""Games that have symmetries, each with the actions of a few plies."""


def forest_of(game: Game, *, wanted: bool = True) -> Forest:
    return Forest(game, resolve(self_play(history=HISTORY, evaluation_symmetry=wanted), game))


def tree_after(forest: Forest, actions: list[int], seed: int = 0) -> SearchTree:
    tree = SearchTree(forest, np.random.default_rng(seed))
    tree.reset(forest.game.notation.state_from_text(""))
    for action in actions:
        tree.advance(action)
    tree.reset_randomness()
    return tree


class Numbers(LeafByLeaf):
    """Answers with each action's number as its prior, and keeps its inputs."""

    def __init__(self) -> None:
        super().__init__(version=4)
        self.shown: list[Leaf] = []

    def answer(self, leaf: Leaf) -> Answer:
        self.shown.append(leaf)
        return leaf.actions.astype(np.float32), 0.5


def expansions(forest: Forest, actions: list[int], evaluator: LeafByLeaf, count: int) -> list[np.ndarray]:
    """Return EDGE[n] of the root of the same position, expanded `count` times."""

    async def main() -> list[np.ndarray]:
        pool, found = SearchPool(forest, evaluator), []
        for seed in range(count):
            with tree_after(forest, actions, seed) as tree:
                await pool.expand(tree)
                assert tree.view_of_net().value == 0.5
                found.append(tree.edges_of(0).copy())
        return found

    return asyncio.run(main())


def maps_of(game: Game) -> list[tuple[int, ...]]:
    """Return the image of each action, for all symmetries and for the identity."""
    assert game.symmetries
    return [tuple(symmetry.actions.tolist()) for symmetry in game.symmetries] + [tuple(range(game.actions))]


@pytest.mark.parametrize(("name", "actions"), PLAYED)
def test_each_prior_is_that_of_the_action_as_the_network_saw_it(name: str, actions: list[int]) -> None:
    """The tree has its own legal actions, in its own order."""
    game, evaluator = get_game(name), Numbers()
    forest = forest_of(game)
    legal = tree_after(forest, actions).legal_actions().tolist()
    met = set()
    for edges, shown in zip(expansions(forest, actions, evaluator, 200), evaluator.shown, strict=True):
        assert edges["action"].tolist() == legal
        (meant,) = (one for one in maps_of(game) if [one[a] for a in legal] == edges["prior"].tolist())
        played = tree_after(forest, [meant[action] for action in actions]).root_leaf()
        assert shown.features.tolist() == played.features.tolist()
        met.add(meant)
    assert met == set(maps_of(game))


def test_a_search_that_does_not_want_symmetries_shows_positions_as_they_are() -> None:
    """No random number is drawn for it, either."""
    forest, evaluator = forest_of(get_game("tic_tac_toe"), wanted=False), Numbers()
    leaf = tree_after(forest, [0, 5, 6]).root_leaf()
    for edges in expansions(forest, [0, 5, 6], evaluator, 5):
        assert edges["prior"].tolist() == leaf.actions.tolist()
    assert {shown.features.tobytes() for shown in evaluator.shown} == {leaf.features.tobytes()}
    rng, untouched = np.random.default_rng(3), np.random.default_rng(3)
    SearchTree(forest, rng).reset_randomness()
    assert rng.random() == untouched.random()
