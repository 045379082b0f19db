"""Packed features as planes, and the first layer that works without planes."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from net_shapes import HANDS_SHAPE, SHAPES, naive_planes, random_words, shape_only

from azselfplay.games.spec import CodedCells, Game, PackedScalars
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


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: CodedCells(9, ((), (0,))), "codes of 9 bits"),
        (lambda: CodedCells(0, ((), (0,))), "codes of 0 bits"),
        (lambda: CodedCells(2, ((),) * 5), "5 codes of 2 bits"),
        (lambda: CodedCells(4, ((0,), (1,))), "the first sets no plane"),
        (lambda: CodedCells(4, ((), (1,))), "set by no code"),
        (lambda: PackedScalars(((0, 1),)), "a field of"),
        (lambda: PackedScalars(((17, 3),)), "a field of"),
        (lambda: PackedScalars(((2, 4),)), "a field of"),
        (lambda: PackedScalars(((3, 0),)), "a field of"),
        (lambda: shape_only("wrong", 3, 3, 20, 2, 9, 2, 0, extra_actions=1), "extra actions"),
        (lambda: shape_only("wrong", 3, 3, 18, 2, 9, 2, 0, extra_actions=1), "extra actions"),
        (lambda: shape_only("wrong", 3, 3, 7, None, 9, 2, 0, extra_actions=1), "extra actions"),
    ],
)
def test_codes_fields_and_actions_that_cannot_be_are_refused(make: Callable[[], object], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        make()
