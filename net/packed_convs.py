"""3x3 convolutions of a CPU through oneDNN, with weights laid out once, and ReLU and addition fused.

These are the operations that torch's own compiler emits for a frozen network; called directly they need no
C++ compiler at run time. They are not a documented interface, so `packed_available` checks whether this torch
has them; otherwise networks run as plain modules (`net.module_on_cpu`).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from net.convolutions import Affine, ConvShape

_ONES = [1, 1]


@lru_cache
def packed_available(dtype: torch.dtype) -> bool:
    """Whether this torch has the fused operations and they work for `dtype` on this CPU."""
    try:
        x = torch.ones((1, 16, 3, 3), dtype=dtype).contiguous(memory_format=torch.channels_last)
        layer = Affine(torch.ones((16, 16, 3, 3)), torch.zeros(16))
        packed = PackedConv(layer, ConvShape(dtype, 16, 3, 3, 1))
        relu, added = packed.relu(x), packed.add_relu_into(x.clone(), x)
    except (AttributeError, RuntimeError, TypeError):
        return False
    return float(relu[0, 0, 1, 1]) == 144.0 and float(added[0, 0, 1, 1]) == 145.0


class PackedConv:
    """One convolution with folded normalisation, prepared for `shape.boards` boards at a time."""

    def __init__(self, layer: Affine, shape: ConvShape) -> None:
        weight = layer.weight.to(shape.dtype).contiguous(memory_format=torch.channels_last)
        inputs = [shape.boards, shape.channels, shape.rows, shape.cols]
        operations: Any = torch.ops.mkldnn
        self._weight = operations._reorder_convolution_weight(weight, _ONES, _ONES, _ONES, 1, inputs)
        self._bias = layer.bias.to(shape.dtype)
        self._plain = operations._convolution_pointwise
        self._into = operations._convolution_pointwise_.binary

    def __call__(self, x: Tensor) -> Tensor:
        """`[n, channels, rows, cols]` to the same shape."""
        out: Tensor = self._plain(x, self._weight, self._bias, _ONES, _ONES, _ONES, 1, "none", [], "")
        return out

    def relu(self, x: Tensor) -> Tensor:
        out: Tensor = self._plain(x, self._weight, self._bias, _ONES, _ONES, _ONES, 1, "relu", [], "")
        return out

    def add_relu_into(self, total: Tensor, x: Tensor) -> Tensor:
        """`relu(total + convolution(x))`, written to `total`."""
        self._into(
            total, x, self._weight, self._bias, _ONES, _ONES, _ONES, 1, "add", 1.0, "relu", [], None
        )  # fmt: skip
        return total
