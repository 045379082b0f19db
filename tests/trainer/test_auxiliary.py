"""Heads that only help to train the tower: their losses are as defined, and they are learned."""

import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from changed_settings import varied
from unsearched import without_policy

from azselfplay.games import get_game
from azselfplay.host.exits import Exit, Fatal
from bench.random_games import random_game
from net.architectures.network import build
from net.architectures.registry import TRAINING_HEADS
from net.architectures.residual import Residual
from net.planes import PlaneShape, features_tensor, unpack
from protocol.records import GameRecord
from trainer.config import LossSettings, OptimizerSettings, TrainerConfig
from trainer.loss import Targets, moves_left_loss, soft_policy_loss, trained_heads
from trainer.sampler import Sampler
from trainer.sampler_kernel import Counts, Samples
from trainer.train_step import TrainStep
from trainer.training_loop import TrainingLoop
from trainer.window import Window

torch.set_num_threads(1)

GAME = get_game("tic_tac_toe")
ALL = {"heads": ",".join(f"{name}:1" for name in TRAINING_HEADS)}
NET = Residual(1, 16, value_channels=2, value_hidden=16, value_head="wdl").with_heads(TRAINING_HEADS)
SAMPLER = Sampler(GAME, 1, heads=trained_heads(LossSettings(**ALL)))
CPU = torch.device("cpu")


def some_games(count: int) -> list[GameRecord]:
    rng = np.random.default_rng(0)
    return [random_game(GAME, rng, simulations=50, targets=0.7) for _ in range(count)]


def one_game(targets: float = 1.0) -> Samples:
    window = Window(GAME, 100)
    window.add(random_game(GAME, np.random.default_rng(4), simulations=50, targets=targets))
    return SAMPLER.newest(window, 100, 100)


def learner(**changes: object) -> TrainStep:
    config = varied(TrainerConfig(), lr=0.01, warmup_steps=10, **changes)  # type: ignore[arg-type]
    return TrainStep(GAME, 1, build(NET, GAME, 1), config.optimizer, config.loss, CPU)


def naive_moves_left(outputs: list[float], plies_left: list[int], capped: list[int]) -> float:
    """Return the loss over games that the rules ended: squared below an error of 10 plies, linear above
    it."""
    found = []
    for output, plies, cut in zip(outputs, plies_left, capped, strict=True):
        error = abs(output - plies / 20)
        if not cut:
            found.append(error * error / 2 if error < 0.5 else 0.5 * (error - 0.25))
    return sum(found) / len(found)


def naive_soft_policy(logits: list[list[float]], rows: list[int], entries: list[tuple[int, float]]) -> float:
    """Return the cross-entropy of each position to its visits ^ 0.25, over its legal moves."""
    loss = 0.0
    for row in set(rows):
        legal = [entry for at, entry in zip(rows, entries, strict=True) if at == row]
        raised = [(share + 1e-7) ** 0.25 for _, share in legal]
        total = math.log(sum(math.exp(logits[row][action]) for action, _ in legal))
        for (action, _), target in zip(legal, raised, strict=True):
            loss -= target / sum(raised) * (logits[row][action] - total)
    return loss / len(set(rows))


def test_losses_agree_with_the_slow_twins() -> None:
    """Both losses of a batch equal those of plain loops, with errors on both sides of the Huber bend, games
    without a length, and positions without a policy target."""
    window = Window(GAME, 1000)
    for game in some_games(30):
        window.add(game)
    samples = without_policy(SAMPLER.sample(window, np.random.default_rng(1), 40), range(0, 40, 3))
    rng = np.random.default_rng(2)
    outputs, capped = rng.normal(size=40), rng.integers(0, 2, 40)
    expected = naive_moves_left(outputs.tolist(), samples.plies_left.tolist(), capped.tolist())
    arrays = (outputs.astype(np.float32), samples.plies_left, capped.astype(np.uint8))
    kept = int((capped == 0).sum())
    assert moves_left_loss(*map(torch.from_numpy, arrays), kept).item() == pytest.approx(expected, rel=1e-5)
    logits = rng.normal(size=(40, 9))
    entries = list(zip(samples.actions.tolist(), samples.shares.tolist(), strict=True))
    expected = naive_soft_policy(logits.tolist(), samples.rows.tolist(), entries)
    policy = map(torch.from_numpy, (samples.rows, samples.actions, samples.shares))
    targets = Targets(torch.zeros(40, 3), torch.ones(40), *policy, Counts.of(samples))
    assert targets.counts.policy_rows == len(set(samples.rows.tolist())) < 40
    loss = soft_policy_loss(torch.from_numpy(logits), targets)
    assert loss.item() == pytest.approx(expected, rel=1e-5)


def test_capped_games_say_nothing_about_moves_left() -> None:
    """A batch of nothing but capped games has loss 0, not NaN."""
    outputs = torch.ones(3, requires_grad=True)
    loss = moves_left_loss(outputs, torch.tensor([1, 2, 3]), torch.ones(3, dtype=torch.uint8), 0)
    loss.backward()
    assert (loss.item(), outputs.grad.abs().sum().item()) == (0.0, 0.0)  # type: ignore[union-attr]


def test_one_game_is_learnt_by_heart() -> None:
    """Trained on it again and again, the heads predict the plies left and the softened visits."""
    torch.manual_seed(1)
    one, samples = learner(**ALL), one_game()
    for _ in range(150):
        one.train(samples)
    outputs = one.network.all_heads(unpack(features_tensor(samples.packed_features), PlaneShape.of(GAME, 1)))
    np.testing.assert_allclose(outputs.training["moves_left"].detach() * 20, samples.plies_left, atol=1.0)
    first = samples.rows == 0
    soft = outputs.training["soft_policy"][0, samples.actions[first]].softmax(0).detach()
    wanted = samples.shares[first] ** 0.25
    np.testing.assert_allclose(soft, wanted / wanted.sum(), atol=0.03)


def test_weight_zero_trains_no_head_and_the_rest_as_without_it() -> None:
    """Heads with weight 0 stay as they are, have no figures, and change nothing else."""
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
    figures = idle.figures()
    assert figures is not None
    assert figures.heads == {}
    assert idle.evaluate(samples).heads == {}


def test_heads_are_made_for_a_new_network_and_added_to_given_weights(tmp_path: Path) -> None:
    """Weights without heads get them, and the rest stays as it is; a run without a head cannot ask for it
    later."""
    folders = [tmp_path / name for name in "abc"]
    for folder in folders:
        folder.mkdir()
    config = TrainerConfig(net="1x8", device="cpu")
    plain = TrainingLoop(config, GAME, 1, "tiny", folders[0])
    plain.save()
    (tmp_path / "w.safetensors").write_bytes(plain.publish(0)[2])
    with_both = varied(config, **ALL)  # type: ignore[arg-type]
    new = TrainingLoop(with_both, GAME, 1, "tiny", folders[1])
    given = dataclasses.replace(with_both, weights=str(tmp_path / "w.safetensors"), seed=5)
    added = TrainingLoop(given, GAME, 1, "tiny", folders[2])
    for one in (new, added):
        weights = one._train_step.network.state_dict()
        assert {name.split(".")[0] for name in weights} >= set(TRAINING_HEADS)
        for name, tensor in plain._train_step.network.state_dict().items():
            assert torch.equal(tensor, weights[name])
    with pytest.raises(Fatal, match=r"no head for --loss\.heads moves_left") as caught:
        TrainingLoop(varied(config, heads="moves_left:0.1"), GAME, 1, "tiny", folders[0])
    assert caught.value.code == Exit.CONFIG
