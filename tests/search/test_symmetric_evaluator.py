"""Leaves seen through random symmetries: what the network is shown is the moved game, priors come back."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
from twice import NAME as TWICE

from games import get_game
from games.spec import Game
from search.evaluator import Evaluation, Leaf
from search.symmetric_evaluator import SymmetricEvaluator

HISTORY = 2


def leaf_after(game: Game, actions: list[int]) -> Leaf:
    line = np.zeros((len(actions) + 1, game.state_words), np.uint64)
    line[0] = game.notation.state_from_text("")
    for ply, action in enumerate(actions):
        game.rules.play(line[ply], action, line[ply + 1])
    words, legal = np.zeros(game.feature_words(HISTORY), np.uint64), np.zeros(game.max_legal, np.uint16)
    count = game.rules.legal_actions(line, len(line), legal)
    game.rules.encode(line, len(line), HISTORY, words)
    return Leaf(words, legal[:count])


class Numbers:
    """Says of each action its number, and keeps what it was shown."""

    version = 4

    def __init__(self) -> None:
        self.shown: list[Leaf] = []

    async def evaluate(self, leaf: Leaf) -> Evaluation:
        self.shown.append(leaf)
        return Evaluation(leaf.actions.astype(np.float32), 0.5)


@pytest.mark.parametrize(
    ("name", "actions"),
    [("tic_tac_toe", [0, 5, 6]), ("connect_four", [0, 0, 2, 5, 1]), (TWICE, [0, 2, 1, 7, 4])],
)
def test_the_network_sees_the_game_with_its_moves_moved(name: str, actions: list[int]) -> None:
    game = get_game(name)
    seen = SymmetricEvaluator(Numbers(), game, HISTORY, np.random.default_rng(0))
    for symmetry in game.symmetries:
        moved = seen.seen_through(symmetry, leaf_after(game, actions))
        played = leaf_after(game, [int(symmetry.actions[action]) for action in actions])
        assert moved.features.tolist() == played.features.tolist()
        assert sorted(moved.actions.tolist()) == sorted(played.actions.tolist())


def test_each_prior_is_that_of_the_action_as_the_network_saw_it() -> None:
    game, inner = get_game("tic_tac_toe"), Numbers()
    seen = SymmetricEvaluator(inner, game, HISTORY, np.random.default_rng(1))
    leaf = leaf_after(game, [0, 5, 6])
    kept = leaf.features.copy(), leaf.actions.copy()
    maps = {tuple(symmetry.actions.tolist()) for symmetry in game.symmetries} | {tuple(range(9))}
    met = set()
    for _ in range(200):
        priors, value = asyncio.run(seen.evaluate(leaf))
        assert value == 0.5
        meant = [one for one in maps if [one[a] for a in leaf.actions] == priors.tolist()]
        assert len(meant) == 1
        met |= set(meant)
    assert met == maps
    assert (leaf.features.tolist(), leaf.actions.tolist()) == (kept[0].tolist(), kept[1].tolist())
    assert seen.version == 4
