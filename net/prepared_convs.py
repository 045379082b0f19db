"""The faster way to compute a 3x3 convolution on a CPU, by its shape and the processor."""

from __future__ import annotations

from typing import Protocol

import torch
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


def by_winograd(shape: ConvShape) -> bool:
    """Whether Winograd's method is used, rather than oneDNN.

    With AVX-512 oneDNN multiplies twice as many numbers at once; which is faster there has not been measured
    yet (`python -m bench convolutions`). This is read from the processor and not measured at the start,
    because the same network must answer the same in every run.
    """
    return saves_enough(shape) and torch.backends.cpu.get_cpu_capability() != "AVX512"


def prepared(layer: Affine, shape: ConvShape) -> Conv:
    """The convolution `layer`, ready for boards of that shape."""
    return WinogradConv(layer, shape) if by_winograd(shape) else PackedConv(layer, shape)
