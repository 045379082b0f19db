"""3x3 convolutions of a CPU through oneDNN, with weights laid out once, and ReLU and addition fused.

These are the operations that torch's own compiler emits for a frozen network; called directly they need no
C++ compiler at run time. They are not a documented interface, so `packed_available` checks whether this torch
has them; otherwise networks run as plain modules (`net.module_on_cpu`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn

_ONES = [1, 1]


@dataclass(frozen=True)
class Affine:
    """Weights and bias of a convolution `[out, in, k, k]` or of a linear layer `[out, in]`, float32."""

    weight: Tensor
    bias: Tensor

    @staticmethod
    def of(layer: nn.Conv2d | nn.Linear) -> Affine:
        """Weights and bias of a layer of a folded network. Raises ValueError if it has no bias, because then
        it was not folded."""
        if layer.bias is None:
            raise ValueError("a layer of a folded network has a bias")
        return Affine(layer.weight.detach(), layer.bias.detach())


@lru_cache
def packed_available(dtype: torch.dtype) -> bool:
    """Whether this torch has the fused operations and they work for `dtype` on this CPU."""
    try:
        x = torch.ones((1, 16, 3, 3), dtype=dtype).contiguous(memory_format=torch.channels_last)
        layer = Affine(torch.ones((16, 16, 3, 3)), torch.zeros(16))
        packed = PackedConv(layer, dtype, 3, 3, rows=1)
        relu, added = packed.relu(x), packed.add_relu_into(x.clone(), x)
    except (AttributeError, RuntimeError, TypeError):
        return False
    return float(relu[0, 0, 1, 1]) == 144.0 and float(added[0, 0, 1, 1]) == 145.0


class PackedConv:
    """One convolution with folded normalisation, prepared for `rows` boards at a time."""

    def __init__(self, layer: Affine, dtype: torch.dtype, rows_of_board: int, cols: int, rows: int) -> None:
        weight = layer.weight.to(dtype).contiguous(memory_format=torch.channels_last)
        shape = [rows, weight.shape[1], rows_of_board, cols]
        operations: Any = torch.ops.mkldnn
        self._weight = operations._reorder_convolution_weight(weight, _ONES, _ONES, _ONES, 1, shape)
        self._bias = layer.bias.to(dtype)
        self._plain = operations._convolution_pointwise
        self._into = operations._convolution_pointwise_.binary

    def __call__(self, x: Tensor) -> Tensor:
        """`[n, in, rows, cols]` to `[n, out, rows, cols]`."""
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
