"""The faster way to compute a 3x3 convolution on a CPU, by its shape."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from net.convolutions import Affine, ConvShape
from net.packed_convs import PackedConv
from net.winograd import WinogradConv, saves_enough


class Conv(Protocol):
    """A convolution of tensors `[n, channels, rows, cols]`, channels-last in memory."""

    def __call__(self, x: Tensor, /) -> Tensor: ...

    def relu(self, x: Tensor, /) -> Tensor: ...

    def add_relu_into(self, total: Tensor, x: Tensor, /) -> Tensor:
        """`relu(total + convolution(x))`, written to `total`."""
        ...


def prepared(layer: Affine, shape: ConvShape) -> Conv:
    """The convolution `layer`, ready for boards of that shape. The choice depends on the shape alone, because
    the same network must answer the same in every run."""
    return WinogradConv(layer, shape) if saves_enough(shape) else PackedConv(layer, shape)
