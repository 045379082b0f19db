"""The targets of the reply head are the visits of the next position, where there are some to learn."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from changed_settings import varied
from entries_of_positions import GAME, check_entries, given_draws
from naive_replies import naive_reply

from bench.random_games import random_game
from net.architectures.registry import build, named
from net.planes import PlaneShape, features_tensor, unpack
from trainer.auxiliary import Entries, reply_loss
from trainer.config import TrainerConfig
from trainer.replies import replies
from trainer.sampler import Sampler
from trainer.train_step import TrainStep
from trainer.window import Window


@given_draws
def test_agrees_with_the_slow_twin(seed: int, capacity: int, draws: list[tuple[int, int]]) -> None:
    """Also where the rings wrap around, and for games with plies that are no targets."""
    rng, window = np.random.default_rng(seed), Window(GAME, capacity, 9.0)
    records = [random_game(GAME, rng, simulations=20, targets=0.7) for _ in range(9)]
    check_entries(replies, naive_reply, window, records, draws)


def test_the_loss_is_the_cross_entropy_over_all_actions() -> None:
    logits = torch.randn(3, 9, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    rows, actions, shares = torch.tensor([0, 0, 2]), torch.tensor([1, 5, 8]), torch.tensor([0.25, 0.75, 1.0])
    loss = reply_loss(logits, Entries(rows, actions, shares, 2))
    log_policy = logits.log_softmax(1)
    wanted = -(0.25 * log_policy[0, 1] + 0.75 * log_policy[0, 5] + log_policy[2, 8]) / 2
    assert loss.item() == pytest.approx(wanted.item(), rel=1e-5)


def test_the_replies_of_a_game_are_learnt_by_heart() -> None:
    torch.manual_seed(1)
    window = Window(GAME, 100)
    window.add(random_game(GAME, np.random.default_rng(4), simulations=50))
    samples = Sampler(GAME, 1, with_replies=True).newest(window, 100, 100)
    config = varied(TrainerConfig(), lr=0.01, warmup_steps=10, reply_weight=1.0)
    network = build(named("1x16").with_heads(["reply"]), GAME, 1)
    step = TrainStep(GAME, 1, network, config.optimizer, config.loss, torch.device("cpu"))
    for _ in range(200):
        step.train(samples)
    outputs = step.network.all_heads(unpack(features_tensor(samples.packed_features), PlaneShape.of(GAME, 1)))
    assert outputs.reply is not None
    assert samples.replies is not None
    learned = outputs.reply.softmax(1).detach()[samples.replies.rows, samples.replies.actions]
    np.testing.assert_allclose(learned, samples.replies.shares, atol=0.05)
    assert samples.replies.rows.max() == len(samples.classes) - 2, "the last move has no reply"


def test_without_the_head_no_replies_are_looked_for() -> None:
    window = Window(GAME, 100)
    window.add(random_game(GAME, np.random.default_rng(4), simulations=50))
    assert Sampler(GAME, 1).newest(window, 100, 100).replies is None
