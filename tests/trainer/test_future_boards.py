"""The targets of the future-board head are the boards that positions led to."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from changed_settings import varied
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_future_boards import naive_future_board

from bench.random_games import random_game
from games import get_game
from net.architectures.registry import build, named
from net.planes import PlaneShape, features_tensor, unpack
from trainer.auxiliary import BoardTargets, future_board_loss
from trainer.config import TrainerConfig
from trainer.sampler import Sampler
from trainer.train_step import TrainStep
from trainer.window import Window

GAME = get_game("tic_tac_toe")
NAMES = ["tic_tac_toe", "connect_four", "dots_and_boxes_2x2", "go_5x5", "shogi", "chess"]


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=8)
@given(seed=st.integers(0, 1000), plies=st.sampled_from([0, 1, 2, 5, 8]))
def test_agrees_with_the_slow_twin(name: str, seed: int, plies: int) -> None:
    """Also where the rings wrap around, where a player moves twice in a row, and for planes of codes."""
    game, rng = get_game(name), np.random.default_rng(seed)
    record = random_game(game, rng, simulations=4)
    window = Window(game, record.plies + 3, game.max_legal)
    for one in (random_game(game, rng, max_plies=8), record):
        window.add(one)
    numbers = window.next_position - record.plies + rng.integers(0, record.plies, 12)
    symmetries = rng.integers(0, len(game.symmetries) + 1, 12)
    sampler = Sampler(game, game.history, symmetric=True, future_plies=plies)
    boards = sampler.make(window, numbers, symmetries).future_boards
    assert boards is not None
    for row, (number, symmetry) in enumerate(zip(numbers, symmetries, strict=True)):
        ply = int(number) - (window.next_position - record.plies)
        wanted = naive_future_board(game, record, ply, plies, (None, *game.symmetries)[symmetry])
        assert boards.known[row] == (wanted is not None)
        if wanted is not None:
            np.testing.assert_array_equal(boards.packed_features[row], wanted)


def test_the_loss_is_the_cross_entropy_of_the_bits_of_a_cell() -> None:
    """Board 1 is unknown and sample 2 has none; neither counts."""
    generator = torch.Generator().manual_seed(1)
    logits = torch.randn(3, 2, 3, 3, generator=generator)
    bits = torch.randint(0, 2, (2, 2, 3, 3), generator=generator).float()
    loss = future_board_loss(logits, BoardTargets(bits, torch.tensor([1, 0], dtype=torch.uint8)))
    right = logits[0].sigmoid() * bits[0] + (1 - logits[0].sigmoid()) * (1 - bits[0])
    assert loss.item() == pytest.approx(-right.log().sum().item() / 9, rel=1e-5)


def test_without_a_known_board_there_is_no_loss() -> None:
    nothing = BoardTargets(torch.zeros(2, 2, 3, 3), torch.zeros(2, dtype=torch.uint8))
    assert future_board_loss(torch.ones(3, 2, 3, 3), nothing).item() == 0


def test_the_boards_of_a_game_are_learnt_by_heart() -> None:
    torch.manual_seed(1)
    window = Window(GAME, 100)
    window.add(random_game(GAME, np.random.default_rng(4), simulations=50))
    samples = Sampler(GAME, 1, future_plies=2).newest(window, 100, 100)
    config = varied(TrainerConfig(), lr=0.01, warmup_steps=10, future_board_weight=1.0)
    network = build(named("1x16").with_heads(["future_board"]), GAME, 1)
    step = TrainStep(GAME, 1, network, config.optimizer, config.loss, torch.device("cpu"))
    for _ in range(300):
        step.train(samples)
    shape = PlaneShape.of(GAME, 1)
    outputs = step.network.all_heads(unpack(features_tensor(samples.packed_features), shape))
    assert outputs.future_board is not None
    assert samples.future_boards is not None
    wanted = unpack(features_tensor(samples.future_boards.packed_features), shape)[:, : shape.binary_planes]
    known = samples.future_boards.known > 0
    assert known.sum() == len(known) - 1, "nobody moves after the last move"
    np.testing.assert_array_equal((outputs.future_board > 0)[known], wanted[known] > 0)


def test_without_the_head_no_boards_are_looked_for() -> None:
    window = Window(GAME, 100)
    window.add(random_game(GAME, np.random.default_rng(4), simulations=50))
    assert Sampler(GAME, 1).newest(window, 100, 100).future_boards is None
