"""Every game with every kind of network and every selection: a game is played, checked and learned from, and
the new network plays."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from changed_settings import self_play
from every_game import EVERY_GAME
from hands import NAME as HANDS
from leaf_by_leaf import played

from client.self_play import Player
from games import get_game
from net.architectures.registry import build, named
from net.inference import Inference
from net.weights import WeightsMeta, save
from protocol.records import from_bytes, to_bytes
from search.evaluator import LocalEvaluator
from search.leaf_batch import Evaluations, LeafBatch
from search.selection import NAMES
from search.settings import resolve
from trainer.config import LossSettings, OptimizerSettings
from trainer.sampler import Sampler
from trainer.train_step import TrainStep
from trainer.verify import Expected, Verifier
from trainer.window import Window

PLIES = 12


@pytest.mark.parametrize("net", ["1x16", "tf1x16"])
@pytest.mark.parametrize("selection", NAMES)
@pytest.mark.parametrize("name", [*EVERY_GAME, HANDS])
def test_a_game_is_played_checked_and_learned_from(
    name: str, selection: str, net: str, tmp_path: Path
) -> None:
    game = get_game(name)
    changes = self_play(simulations=4, selection=selection, history=1, max_plies=PLIES)
    settings = resolve(changes, game)
    torch.manual_seed(0)
    network = build(named(net), game, 1)
    save(tmp_path / "net.safetensors", network, WeightsMeta(name, 1, named(net)))
    inference = Inference(name, 1, threads=1, target_rows=8)
    inference.load(tmp_path / "net.safetensors")

    def infer(batch: LeafBatch) -> Evaluations:
        return Evaluations(*inference.run(batch.features, batch.counts, batch.actions), 0)

    evaluator = LocalEvaluator(infer, 8)
    record = from_bytes(to_bytes(played(game, settings, evaluator, Player(3).rng(0))))
    evaluator.close()
    inference.close()
    assert Verifier(game).check(record, Expected.of(settings, game), 0) is None

    window, rng = Window(game, 1000), np.random.default_rng(0)
    window.add(record)
    learner = TrainStep(game, 1, network, OptimizerSettings(), LossSettings(), torch.device("cpu"))
    before = {key: tensor.clone() for key, tensor in learner.network.state_dict().items()}
    learner.train(Sampler(game, 1).sample(window, rng, 8))
    after = learner.network.state_dict()
    assert all(bool(torch.isfinite(tensor).all()) for tensor in after.values())
    assert any(not torch.equal(before[key], after[key]) for key in before)
