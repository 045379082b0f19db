"""Loops and number formats of a network on a CPU, compared with numpy's and torch's."""

import numpy as np
import pytest
import torch
from net_shapes import SHAPES, naive_planes, random_legal, random_words
from numba import njit

from azselfplay.games.spec import Game
from net.cpu.kernels import as_numpy, legal_priors, load_bf16, store_bf16, write_planes
from net.planes import PlaneShape


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("game", SHAPES, ids=lambda game: game.name)
def test_planes_are_what_unpackbits_says(game: Game, dtype: torch.dtype) -> None:
    """They do not depend on what the memory held before, nor on bits beyond the board."""
    shape = PlaneShape.of(game, 2)
    packed_features = random_words(game, 2, 9, np.random.default_rng(0))
    expected = torch.from_numpy(naive_planes(packed_features, game, 2)).to(dtype).flatten(2).transpose(1, 2)
    scalars = torch.from_numpy(shape.scalar_values(packed_features)).to(dtype)
    last = shape.words_per_plane - 1
    packed_features[:, last : shape.bit_words : last + 1] |= ~shape.masks()[last]
    planes = torch.full((12, shape.cells, shape.planes), 7.0).to(dtype)
    one = as_numpy(torch.ones(1, dtype=dtype))[0]
    words = shape.binary_words(packed_features)
    write_planes(words, as_numpy(scalars), shape.masks(), one, as_numpy(planes))
    assert torch.equal(planes[:9], expected)
    assert (planes[9:] == 7).all()


def test_priors_are_the_softmax_of_legal_actions() -> None:
    game, rng = SHAPES[0], np.random.default_rng(1)
    counts, actions = random_legal(game, 5, rng)
    counts[3] = 0
    ends = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]).astype(np.int64)
    actions = actions[: ends[-1]]
    logits = rng.normal(size=(5, game.actions)).astype(np.float32) * 9
    priors = np.zeros(len(actions), np.float32)
    legal_priors(logits, counts, actions, priors)
    for row in range(5):
        mine = logits[row, actions[ends[row] : ends[row + 1]]].astype(np.float64)
        expected = np.exp(mine - mine.max(initial=-np.inf))
        np.testing.assert_allclose(priors[ends[row] : ends[row + 1]], expected / expected.sum(), rtol=1e-4)


@njit
def stored(numbers: np.ndarray, found: np.ndarray) -> None:
    """numbers  [n] float32;  found  [n] uint16"""
    for i in range(len(numbers)):
        found[i] = store_bf16(numbers[i])


@njit
def loaded(bits: np.ndarray, found: np.ndarray) -> None:
    """bits  [n] uint16;  found  [n] float32"""
    for i in range(len(bits)):
        found[i] = load_bf16(bits[i])


def test_numbers_are_rounded_as_torch_does_ties_to_even_included() -> None:
    """All 65,536 upper halves are tried, each below, at and above the middle to the next number."""
    upper = np.arange(1 << 16, dtype=np.uint32)
    words = np.concatenate([(upper << 16) | lower for lower in (0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF)])
    numbers = words.view(np.float32)
    numbers = numbers[np.isfinite(numbers)]
    found = np.zeros(len(numbers), np.uint16)
    stored(numbers, found)
    assert np.array_equal(found, as_numpy(torch.from_numpy(numbers).bfloat16()))


def test_every_finite_bfloat16_is_read_exactly() -> None:
    bits = np.arange(1 << 16, dtype=np.uint16)
    expected = torch.from_numpy(bits).view(torch.bfloat16).float().numpy()
    found = np.zeros(len(bits), np.float32)
    loaded(bits, found)
    finite = np.isfinite(expected)
    assert np.array_equal(found[finite].view(np.uint32), expected[finite].view(np.uint32))
