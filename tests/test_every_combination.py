"""Every game with every selection, and both with every kind of network (all pairs, not all triples).

The network answers as the plain one does; a game is played, checked and learned from."""

import asyncio
from pathlib import Path

import numpy as np
import pytest
import torch
from changed_settings import self_play
from every_game import EVERY_GAME
from leaf_by_leaf import played
from sparse_positions import SPARSE_GAMES, positions, saved, sparse_network
from test_inference import naive_answers, trained_like

from azselfplay.games import get_game
from azselfplay.games.spec import Game
from azselfplay.search.evaluator import Evaluations, LocalEvaluator
from azselfplay.search.forest import Forest
from azselfplay.search.pool import SearchPool
from azselfplay.search.selection import NAMES
from azselfplay.search.settings import resolve
from client.self_play import Player, play_game
from net.architectures.network import Network
from net.architectures.registry import named
from net.inference import Inference
from net.sparse import SparseInference
from net.weights import WeightsMeta, save
from protocol.frames import LeafBatch
from protocol.records import GameRecord, from_bytes, to_bytes
from protocol.settings import SelfPlaySettings
from trainer.config import LossSettings, OptimizerSettings
from trainer.sampler import Sampler
from trainer.train_step import TrainStep
from trainer.verify import Verifier
from trainer.window import Window

PLIES = 12
NETS = ("1x16", "tf1x16")
USUAL = {"tic_tac_toe": "thompson", "connect_four": "gumbel", "chess": "gumbel"}
"""Selections that other tests compile for these games anyway; for other games that is puct."""
COMBINATIONS = [
    pytest.param(
        name,
        selection,
        NETS[(row + column) % len(NETS)],
        marks=() if selection == USUAL.get(name, "puct") else pytest.mark.nightly,
    )
    for row, name in enumerate(EVERY_GAME)
    for column, selection in enumerate(NAMES)
]
"""Quick tests try one selection with each game, nightly tests all, because each pair must be compiled."""


@pytest.mark.parametrize(("name", "selection", "net"), COMBINATIONS)
def test_a_game_is_played_checked_and_learned_from(name: str, selection: str, net: str, tmp_path) -> None:
    game = get_game(name)
    changes = self_play(simulations=4, selection=selection, history=1, max_plies=PLIES)
    settings = resolve(changes, game)
    network = trained_like(named(net), game, 1)
    save(tmp_path / "net.safetensors", network, WeightsMeta(name, 1, named(net)))
    inference = Inference(name, 1, threads=1, target_rows=8)
    inference.load(tmp_path / "net.safetensors")
    batch = positions(name, 30)
    answers = inference.run(batch)
    for ours, plain in zip(answers, naive_answers(network, game, 1, batch), strict=True):
        np.testing.assert_allclose(ours, plain, atol=0.03, rtol=0.06)

    def infer(batch: LeafBatch) -> Evaluations:
        return Evaluations(*inference.run(batch), 0)

    evaluator = LocalEvaluator(infer, 8)
    record = played(game, settings, evaluator, Player(3).rng(0))
    evaluator.close()
    inference.close()
    check_and_learn(game, settings, network, record)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(one, marks=pytest.mark.nightly if one in ("shogi", "dots_and_boxes") else ())
        for one in SPARSE_GAMES
    ],
)
def test_a_game_with_its_network_in_the_search_is_checked_and_learned_from(name: str, tmp_path: Path) -> None:
    game, network = get_game(name), sparse_network(name)
    settings = resolve(self_play(simulations=4, selection="gumbel", history=1, max_plies=PLIES), game)
    player = SparseInference(game, 1)
    player.load(saved(tmp_path / "net.safetensors", name, network))
    pool = SearchPool(Forest(game, settings, network=player), player)
    record = asyncio.run(play_game(pool, Player(3).rng(0)))
    assert pool.forest.evaluated > 0
    check_and_learn(game, settings, network, record)


def check_and_learn(game: Game, settings: SelfPlaySettings, network: Network, record: GameRecord) -> None:
    """Check that the record passes the trainer's check as bytes, and a step on it moves the network."""
    record = from_bytes(to_bytes(record))
    assert Verifier(game, settings).check(record, 0) is None

    window, rng = Window(game, 1000), np.random.default_rng(0)
    window.add(record)
    learner = TrainStep(game, 1, network, OptimizerSettings(), LossSettings(), torch.device("cpu"))
    before = {key: tensor.clone() for key, tensor in learner.network.state_dict().items()}
    learner.train(Sampler(game, 1).sample(window, rng, 8))
    after = learner.network.state_dict()
    assert all(bool(torch.isfinite(tensor).all()) for tensor in after.values())
    assert any(not torch.equal(before[key], after[key]) for key in before)
