"""Packed features as planes, and the first layer that works without planes."""

import numpy as np
import pytest
import torch
from net_shapes import HANDS_SHAPE, SHAPES, naive_planes, random_words

from azselfplay.games.spec import Game
from net.planes import PlaneShape, features_tensor, unpack


@pytest.mark.parametrize("game", SHAPES, ids=lambda game: game.name)
def test_unpacking_gives_the_planes_that_naive_unpackbits_gives(game: Game) -> None:
    packed_features = random_words(game, 3, 5, np.random.default_rng(1))
    planes = unpack(features_tensor(packed_features), PlaneShape.of(game, 3))
    np.testing.assert_array_equal(planes.numpy(), naive_planes(packed_features, game, 3))


def test_planes_in_bfloat16_are_exact_ones_and_rounded_scalars() -> None:
    game = HANDS_SHAPE
    packed_features = random_words(game, 8, 4, np.random.default_rng(2))
    planes = unpack(features_tensor(packed_features), PlaneShape.of(game, 8), torch.bfloat16)
    expected = torch.from_numpy(naive_planes(packed_features, game, 8)).to(torch.bfloat16)
    assert torch.equal(planes, expected)
