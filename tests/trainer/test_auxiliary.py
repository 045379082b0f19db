"""Heads that only help to train the tower are learned, and change nothing else."""

import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from changed_settings import varied

from azselfplay.games import get_game
from azselfplay.host.exits import Exit, Fatal
from bench.random_games import random_game
from net.architectures.network import build
from net.architectures.registry import TRAINING_HEADS
from net.architectures.residual import Residual
from net.planes import PlaneShape, features_tensor, unpack
from trainer.config import LossSettings, OptimizerSettings, TrainerConfig
from trainer.loss import trained_heads
from trainer.sampler import Sampler
from trainer.sampler_kernel import Samples
from trainer.train_step import TrainStep
from trainer.training_loop import TrainingLoop
from trainer.window import Window

torch.set_num_threads(1)

GAME = get_game("go_3x3")
ALL = {"heads": ",".join(f"{name}:1" for name in TRAINING_HEADS)}
NET = Residual(1, 16, value_channels=2, value_hidden=16, value_head="wdl").with_heads(TRAINING_HEADS)
SAMPLER = Sampler(GAME, 1, heads=trained_heads(LossSettings(**ALL)))
CPU = torch.device("cpu")


def one_game(*, with_owners: bool = True) -> Samples:
    window = Window(GAME, 100, with_owners=with_owners)
    window.add(random_game(GAME, np.random.default_rng(4), simulations=50))
    return SAMPLER.spread_over_last(window, 100, 100)


def learner(**changes: object) -> TrainStep:
    config = varied(TrainerConfig(), lr=0.01, warmup_steps=10, **changes)  # type: ignore[arg-type]
    return TrainStep(GAME, 1, build(NET, GAME, 1), config.optimizer, config.loss, CPU)


def test_one_game_is_learnt_by_heart() -> None:
    torch.manual_seed(2)
    one, samples = learner(**ALL), one_game()
    for _ in range(250):
        one.train(samples)
    outputs = one.network.all_heads(unpack(features_tensor(samples.packed_features), PlaneShape.of(GAME, 1)))
    assert samples.heads is not None
    owners = samples.heads["ownership"].owners
    assert owners.any()
    np.testing.assert_allclose(outputs.training["ownership"].detach().tanh(), owners, atol=0.1)


def test_a_head_without_targets_has_no_loss() -> None:
    """Imported games have no last boards. Steps with them alone leave the mean of others as it is."""
    one, samples, nothing = learner(**ALL), one_game(), one_game(with_owners=False)
    one.train(nothing)
    assert one.figures().heads == one.evaluate(nothing).heads == {}  # type: ignore[union-attr]
    for batch in (nothing, samples, nothing):
        one.train(batch)
    found = one.figures().heads["ownership"]  # type: ignore[union-attr]
    assert found == pytest.approx(math.log(2), abs=0.2), "a guess of the new network"


def test_weight_zero_trains_no_head_and_the_rest_as_without_it() -> None:
    samples, settings = one_game(), (OptimizerSettings(), LossSettings())
    torch.manual_seed(1)
    idle, plain = (TrainStep(GAME, 1, build(net, GAME, 1), *settings, CPU) for net in (NET, NET.played))
    idle.network.load_state_dict(plain.network.state_dict(), strict=False)
    before = {name: tensor.clone() for name, tensor in idle.network.state_dict().items()}
    for one in (idle, plain):
        one.train(samples)
    theirs = plain.network.state_dict()
    for name, tensor in idle.network.state_dict().items():
        # Such a head still sees the boards, so its running statistics change; its weights do not.
        if name in theirs or name.endswith(("weight", "bias")):
            assert torch.equal(tensor, theirs.get(name, before[name]))
    assert idle.figures().heads == idle.evaluate(samples).heads == {}  # type: ignore[union-attr]


def test_heads_are_made_for_a_new_network_and_added_to_given_weights(tmp_path: Path) -> None:
    """Weights without heads get them, and the rest stays as it is; a run without a head cannot ask for it
    later."""
    folders = [tmp_path / name for name in "abc"]
    for folder in folders:
        folder.mkdir()
    config = TrainerConfig(net="1x8", device="cpu")
    plain = TrainingLoop(config, GAME, 1, "tiny", folders[0])
    plain.save()
    (tmp_path / "w.safetensors").write_bytes(plain.export_weights(0)[2])
    with_both = varied(config, **ALL)  # type: ignore[arg-type]
    new = TrainingLoop(with_both, GAME, 1, "tiny", folders[1])
    given = dataclasses.replace(with_both, weights=str(tmp_path / "w.safetensors"), seed=5)
    added = TrainingLoop(given, GAME, 1, "tiny", folders[2])
    for one in (new, added):
        weights = one._train_step.network.state_dict()
        assert {name.split(".")[0] for name in weights} >= set(TRAINING_HEADS)
        for name, tensor in plain._train_step.network.state_dict().items():
            assert torch.equal(tensor, weights[name])
    with pytest.raises(Fatal, match=r"no head for --loss\.heads ownership") as caught:
        TrainingLoop(varied(config, heads="ownership:0.1"), GAME, 1, "tiny", folders[0])
    assert caught.value.code == Exit.CONFIG
