"""Packed features as planes, and the first layer that works without planes."""

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
    ("bits", "planes_of", "says"),
    [
        (9, ((), (0,)), "codes of 9 bits"),
        (0, ((), (0,)), "codes of 0 bits"),
        (2, ((),) * 5, "5 codes of 2 bits"),
        (4, ((0,), (1,)), "the first sets no plane"),
        (4, ((), (1,)), "set by no code"),
    ],
)
def test_codes_that_cannot_be_are_refused(bits: int, planes_of: tuple, says: str) -> None:
    """The faults: a wrong width, too many codes, a code 0 that sets a plane, a plane that no code sets."""
    with pytest.raises(ValueError, match=says):
        CodedCells(bits, planes_of)


@pytest.mark.parametrize("field", [(0, 1), (17, 3), (2, 4), (3, 0)])
def test_packed_scalars_that_cannot_be_are_refused(field: tuple[int, int]) -> None:
    """The faults: no bits, too many bits, a divisor that does not fit, no divisor."""
    with pytest.raises(ValueError, match="a field of"):
        PackedScalars((field,))


@pytest.mark.parametrize(("actions", "planes", "extra"), [(20, 2, 1), (18, 2, 1), (7, None, 1)])
def test_actions_that_are_not_planes_and_extra_actions_are_refused(
    actions: int, planes: int | None, extra: int
) -> None:
    with pytest.raises(ValueError, match="extra actions"):
        shape_only("wrong", 3, 3, actions, planes, 9, 2, 0, extra_actions=extra)
