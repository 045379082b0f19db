"""How many boards a 3x3 convolution may be run with, so that each answer does not depend on that number.

oneDNN prepares each number of boards separately, and the blocks that it chooses depend on the processor. So
its behaviour is tested on made-up numbers, once on a machine for each shape.
"""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

from net.agreeing_sizes import Positions, agreeing_sizes
from net.convolutions import Affine, ConvShape
from net.prepared_convs import Conv, prepared
from net.sizes_on_disk import remembered

STEP = 4
"""Sizes are multiples of this (or 1 or 2): oneDNN prepares each size it gets once."""
_CANCELLED = 2.0**-5
"""Half of all terms cancel the other half except for this share, which makes the order of addition
visible."""


@lru_cache
def conv_sizes(shape: ConvShape) -> tuple[int, ...]:
    """Numbers of boards that give the same bits. Must be called in a thread set up like those that
    compute."""
    return remembered(str(shape), candidates(shape.boards), lambda: try_sizes(shape))


@torch.inference_mode()
def try_sizes(shape: ConvShape) -> tuple[int, ...]:
    """The same, determined by computing."""
    conv, inputs = _made_up(shape)
    into = torch.zeros((shape.boards, shape.rows, shape.cols, shape.channels), dtype=shape.dtype)

    def compute(positions: Positions) -> list[bytes]:
        boards = into[: len(positions)]
        boards.copy_(inputs[torch.from_numpy(positions)])
        return _answers(conv, boards.permute(0, 3, 1, 2))

    return agreeing_sizes(candidates(shape.boards), shape.boards, compute)


def candidates(boards: int) -> tuple[int, ...]:
    """1, 2, and multiples of STEP up to `boards`."""
    return (1, 2, *range(STEP, boards + 1, STEP))


def _made_up(shape: ConvShape) -> tuple[Conv, Tensor]:
    """A convolution and boards `[boards, rows, cols, channels]` for it; always the same."""
    generator = torch.Generator().manual_seed(shape.channels)
    half = shape.channels // 2
    weight = torch.randn((shape.channels, half, 3, 3), generator=generator)
    board = torch.randn((shape.boards, shape.rows, shape.cols, half), generator=generator)
    nearly = board + _CANCELLED * torch.randn(board.shape, generator=generator)
    bias = torch.randn(shape.channels, generator=generator)
    conv = prepared(Affine(torch.cat([weight, -weight], dim=1), bias), shape)
    return conv, torch.cat([board, nearly], dim=3).to(shape.dtype)


def _answers(conv: Conv, x: Tensor) -> list[bytes]:
    """All bits of a convolution's results, in the three ways the network uses it, for each board of `x [n,
    channels, rows, cols]`."""
    found = [conv(x), conv.relu(x), conv.add_relu_into(x.clone(), x)]
    boards = [answer.permute(0, 2, 3, 1).flatten(1).view(torch.uint8).numpy() for answer in found]
    return [b"".join(one.tobytes() for one in ways) for ways in zip(*boards, strict=True)]
