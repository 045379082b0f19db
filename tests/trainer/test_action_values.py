"""The targets of the action-value head are the values that the search found for its moves."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from changed_settings import varied
from entries_of_positions import GAME, check_entries, given_draws
from naive_action_values import naive_action_values

from bench.random_games import random_game
from net.architectures.registry import build, named
from net.planes import PlaneShape, features_tensor, unpack
from trainer.action_values import action_values
from trainer.auxiliary import Entries, action_value_loss
from trainer.config import TrainerConfig
from trainer.sampler import Sampler
from trainer.train_step import TrainStep
from trainer.window import Window


@given_draws
def test_agrees_with_the_slow_twin(seed: int, capacity: int, draws: list[tuple[int, int]]) -> None:
    """Also where the rings wrap around, and where some games were recorded without child values."""
    rng, window = np.random.default_rng(seed), Window(GAME, capacity, 9.0, with_child_values=True)
    records = [random_game(GAME, rng, simulations=20, child_values=rng.random() < 0.7) for _ in range(9)]
    check_entries(action_values, naive_action_values, window, records, draws)


def test_each_position_counts_the_same_in_the_loss() -> None:
    """Position 0 has two known moves, position 2 has one; position 1 has none and does not count."""
    outputs = torch.randn(3, 9, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    known = Entries(torch.tensor([0, 0, 2]), torch.tensor([1, 5, 8]), torch.tensor([0.5, -1.0, 1.0]), 2)
    values = outputs.tanh()
    first = ((values[0, 1] - 0.5) ** 2 + (values[0, 5] + 1) ** 2) / 2
    wanted = (first + (values[2, 8] - 1) ** 2) / 2
    assert action_value_loss(outputs, known).item() == pytest.approx(wanted.item(), rel=1e-5)


def test_without_a_known_move_there_is_no_loss() -> None:
    nothing = Entries(torch.zeros(0).long(), torch.zeros(0).long(), torch.zeros(0), 0)
    assert action_value_loss(torch.ones(3, 9), nothing).item() == 0


def test_the_action_values_of_a_game_are_learnt_by_heart() -> None:
    torch.manual_seed(1)
    window = Window(GAME, 100, with_child_values=True)
    window.add(random_game(GAME, np.random.default_rng(4), simulations=50, child_values=True))
    samples = Sampler(GAME, 1, with_action_values=True).newest(window, 100, 100)
    config = varied(TrainerConfig(), lr=0.01, warmup_steps=10, action_value_weight=1.0)
    network = build(named("1x16").with_heads(["action_value"]), GAME, 1)
    step = TrainStep(GAME, 1, network, config.optimizer, config.loss, torch.device("cpu"))
    for _ in range(300):
        step.train(samples)
    outputs = step.network.all_heads(unpack(features_tensor(samples.packed_features), PlaneShape.of(GAME, 1)))
    assert outputs.action_value is not None
    assert samples.action_values is not None
    rows, actions, values = samples.action_values
    assert len(values) > len(samples.classes)
    np.testing.assert_allclose(outputs.action_value.tanh().detach()[rows, actions], values, atol=0.1)


def test_without_the_head_no_action_values_are_looked_for_nor_stored() -> None:
    window = Window(GAME, 100)
    window.add(random_game(GAME, np.random.default_rng(4), simulations=50, child_values=True))
    assert Sampler(GAME, 1).newest(window, 100, 100).action_values is None
    assert len(window.child_values) == 0
