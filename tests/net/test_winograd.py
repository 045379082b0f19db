"""Winograd's convolutions, compared with those of torch in float64."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from net.cpu.convolutions import FILTERS, Affine, ConvShape, WinogradConv, by_winograd, products, tile_length
from net.cpu.winograd import INPUTS, RESULTS

NEAR = 1e-4
"""Results of about 1 differ from the exact ones by less than this."""


def made_up(channels: int, rows: int, cols: int, boards: int) -> tuple[Affine, Tensor]:
    """Return a layer and channels-last boards for it, always the same."""
    torch.manual_seed(1)
    layer = Affine(torch.randn(channels, channels, 3, 3) / (9 * channels) ** 0.5, torch.randn(channels))
    x = torch.randn(boards, channels, rows, cols).contiguous(memory_format=torch.channels_last)
    return layer, x


@pytest.mark.parametrize("length", [3, 4])
def test_a_line_is_filtered(length: int) -> None:
    rng = np.random.default_rng(length)
    inputs, weights = rng.normal(size=length + 2), rng.normal(size=3)
    found = np.array(RESULTS[length]) @ ((FILTERS[length] @ weights) * (np.array(INPUTS[length]) @ inputs))
    assert found == pytest.approx([inputs[i : i + 3] @ weights for i in range(length)])


@given(
    channels=st.sampled_from([16, 32]),
    rows=st.integers(1, 12),
    cols=st.integers(1, 12),
    boards=st.integers(1, 8),
)
def test_agrees_with_the_plain_convolution(channels: int, rows: int, cols: int, boards: int) -> None:
    layer, x = made_up(channels, rows, cols, boards)
    conv = WinogradConv(layer, ConvShape(torch.float32, channels, rows, cols, boards))
    plain = torch.nn.functional.conv2d(x.double(), layer.weight.double(), layer.bias.double(), padding=1)
    total = x.clone(memory_format=torch.preserve_format)
    assert conv.add_relu_into(total, x) is total
    for found, expected in ((conv(x), plain), (conv.relu(x), plain.relu()), (total, (x + plain).relu())):
        assert found.is_contiguous(memory_format=torch.channels_last)
        assert (found - expected).abs().max() < NEAR


def test_a_board_has_the_same_bits_alone_and_among_others() -> None:
    layer, x = made_up(16, 9, 9, 7)
    conv = WinogradConv(layer, ConvShape(torch.float32, 16, 9, 9, 7))
    together = conv(x)
    for number in (6, 0, 3):
        assert torch.equal(conv(x[number : number + 1])[0], together[number])


def test_what_is_no_number_stays_so_and_spoils_no_other_board() -> None:
    layer, x = made_up(16, 8, 8, 5)
    x[2, 3, 4, 5] = torch.nan
    found = WinogradConv(layer, ConvShape(torch.float32, 16, 8, 8, 5)).relu(x)
    assert found.isnan().flatten(1).any(dim=1).tolist() == [False, False, True, False, False]


@pytest.mark.parametrize(
    ("cells", "length", "count"), [(3, 3, 5), (6, 3, 10), (7, 4, 12), (8, 4, 12), (9, 3, 15), (19, 4, 30)]
)
def test_tiles_are_those_that_take_the_fewest_products(cells: int, length: int, count: int) -> None:
    assert (tile_length(cells), products(cells)) == (length, count)


@pytest.mark.parametrize(
    ("dtype", "rows", "cols", "is_used"),
    [
        (torch.float32, 8, 8, True),
        (torch.float32, 3, 3, True),
        (torch.float32, 1, 7, False),
        (torch.bfloat16, 8, 8, False),
    ],
)
def test_it_is_used_where_it_saves_half_of_the_products(
    dtype: torch.dtype, rows: int, cols: int, is_used: bool
) -> None:
    assert by_winograd(ConvShape(dtype, 48, rows, cols, 8)) == is_used
