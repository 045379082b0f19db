"""Winograd's convolutions, compared with those of torch in float64."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from net.cpu.convolutions import Affine, ConvShape, WinogradConv, by_winograd

NEAR = 1e-4
"""Results of about 1 differ from the exact ones by less than this."""


def made_up(channels: int, rows: int, cols: int, boards: int) -> tuple[Affine, Tensor]:
    """Return a layer and channels-last boards for it, always the same."""
    torch.manual_seed(1)
    layer = Affine(torch.randn(channels, channels, 3, 3) / (9 * channels) ** 0.5, torch.randn(channels))
    x = torch.randn(boards, channels, rows, cols).contiguous(memory_format=torch.channels_last)
    return layer, x


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
