"""A 3x3 convolution on one CPU core, by the faster of two methods: shape and number format decide which.

`prepared` lays out a layer's weights once, and returns either

 * `WinogradConv`: Winograd's method (Lavin and Gray 2016, arXiv 1509.09308), in jitted loops
   (`net.cpu.winograd`), for float32 and all but the smallest boards, or
 * `PackedConv`: oneDNN, with ReLU and addition fused, for bfloat16 and small boards.

With a filter of three, m results in a line are A^T ((G filter) * (B^T inputs)): m + 2 products instead of 3
m. In two dimensions a tile of 4 x 4 results takes 36 products instead of 144. With channels, each of the 36
products is one of matrices, [tiles, channels] x [channels, channels]; the rest is additions. bfloat16 has too
few bits for this method, and processors that multiply bfloat16 faster do not need it.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from net.cpu.winograd import VECTOR, Scratch, Sizes, convolve, pitch_of, tiles_of

FILTERS = {
    3: np.array([[3, 0, 0], [-3, -3, -3], [-1, 1, -1], [1, 2, 4], [0, 0, 6]]) / 6,
    4: np.array([[6, 0, 0], [-4, -4, -4], [-4, 4, -4], [1, 2, 4], [1, -2, 4], [0, 0, 24]]) / 24,
}
"""The matrix G for 3 and for 4 results in a line. Longer lines would lose digits."""
GROUP = 3
"""Boards whose tiles are multiplied together: few enough to stay in a core's cache, but enough to use each
weight often (docs/decisions/0063)."""
_ONES = [1, 1]


@dataclass(frozen=True)
class Affine:
    """Weights and bias of a convolution `[out, in, k, k]` or of a linear layer `[out, in]`, float32."""

    weight: Tensor
    bias: Tensor

    @staticmethod
    def of(layer: nn.Conv2d | nn.Linear) -> Affine:
        """Return weights and bias of a layer of a folded network. Raises ValueError without a bias: the
        network was not folded."""
        if layer.bias is None:
            raise ValueError("a layer of a folded network has a bias")
        return Affine(layer.weight.detach(), layer.bias.detach())


@dataclass(frozen=True)
class ConvShape:
    """A 3x3 convolution from `channels` to `channels` on boards of `rows` x `cols`, at most `boards` of
    them."""

    dtype: torch.dtype
    channels: int
    rows: int
    cols: int
    boards: int


def prepared(layer: Affine, shape: ConvShape) -> WinogradConv | PackedConv:
    """Return the convolution `layer`, with folded normalisation, ready for boards of that shape. It takes
    tensors `[n, channels, rows, cols]`, channels-last in memory; `add_relu_into(total, x)` writes `relu(total
    + convolution(x))` to `total`."""
    return WinogradConv(layer, shape) if by_winograd(shape) else PackedConv(layer, shape)


def by_winograd(shape: ConvShape) -> bool:
    """Return whether to use Winograd's method: in float32, if it saves at least half of the products.
    Otherwise, as on the smallest boards, its additions cost more than it saves."""
    # Decided by the shape, not by a measurement: the same network must answer the same in every run.
    # Measured, Winograd takes less time than oneDNN with AVX2, and 0.45 to 0.6 of it with AVX-512
    # (bench/RESULTS.md).
    taken, usual = products(shape.rows) * products(shape.cols), 9 * shape.rows * shape.cols
    return shape.dtype == torch.float32 and 2 * taken <= usual


def products(cells: int) -> int:
    """Return Winograd's products for a line of `cells` cells; the usual method takes three for each cell."""
    length = tile_length(cells)
    return -(-cells // length) * (length + 2)


def tile_length(cells: int) -> int:
    """Return the length of a tile, in results, that takes the fewest products for a line of `cells` cells."""
    return min(FILTERS, key=lambda length: -(-cells // length) * (length + 2))


# ---- oneDNN ----------------------------------------------------------------------------------------


class PackedConv:
    """oneDNN's convolution. These are the operations that torch's own compiler emits for a frozen network;
    called directly they need no C++ compiler at run time."""

    def __init__(self, layer: Affine, shape: ConvShape) -> None:
        weight = layer.weight.to(shape.dtype).contiguous(memory_format=torch.channels_last)
        inputs = [shape.boards, shape.channels, shape.rows, shape.cols]
        operations: Any = torch.ops.mkldnn
        self._weight = operations._reorder_convolution_weight(weight, _ONES, _ONES, _ONES, 1, inputs)
        self._bias = layer.bias.to(shape.dtype)
        self._plain = operations._convolution_pointwise
        self._into = operations._convolution_pointwise_.binary

    def __call__(self, x: Tensor) -> Tensor:
        out: Tensor = self._plain(x, self._weight, self._bias, _ONES, _ONES, _ONES, 1, "none", [], "")
        return out

    def relu(self, x: Tensor) -> Tensor:
        out: Tensor = self._plain(x, self._weight, self._bias, _ONES, _ONES, _ONES, 1, "relu", [], "")
        return out

    def add_relu_into(self, total: Tensor, x: Tensor) -> Tensor:
        self._into(
            total, x, self._weight, self._bias, _ONES, _ONES, _ONES, 1, "add", 1.0, "relu", [], None
        )  # fmt: skip
        return total


@lru_cache
def packed_available(dtype: torch.dtype) -> bool:
    """Return whether this torch has the fused operations, which are undocumented, and they work for `dtype`
    on this CPU. If not, networks run as plain modules."""
    try:
        # With ones everywhere, the middle cell is 9 taps times 16 channels.
        x = torch.ones((1, 16, 3, 3), dtype=dtype).contiguous(memory_format=torch.channels_last)
        layer = Affine(torch.ones((16, 16, 3, 3)), torch.zeros(16))
        packed = PackedConv(layer, ConvShape(dtype, 16, 3, 3, 1))
        relu, added = packed.relu(x), packed.add_relu_into(x.clone(), x)
    except (AttributeError, RuntimeError, TypeError):
        return False
    return float(relu[0, 0, 1, 1]) == 144.0 and float(added[0, 0, 1, 1]) == 145.0


# ---- Winograd --------------------------------------------------------------------------------------


class WinogradConv:
    """The convolution by `net.cpu.winograd`, in float32."""

    def __init__(self, layer: Affine, shape: ConvShape) -> None:
        self._plan = plan = plan_of(shape)
        self._bias = layer.bias.numpy()
        tall, wide = (FILTERS[length] for length in (plan.sizes.tall, plan.sizes.wide))
        # In float64, rounded once at the end: the divisions in G would lose digits in float32.
        spread = np.einsum("ia,ocab,jb->ijco", tall, layer.weight.double().numpy(), wide)
        self._weight = spread.astype(np.float32).ravel()

    def __call__(self, x: Tensor) -> Tensor:
        return self._into(torch.empty_like(x), x, (False, False))

    def relu(self, x: Tensor) -> Tensor:
        return self._into(torch.empty_like(x), x, (False, True))

    def add_relu_into(self, total: Tensor, x: Tensor) -> Tensor:
        return self._into(total, x, (True, True))

    def _into(self, out: Tensor, x: Tensor, rule: tuple[bool, bool]) -> Tensor:
        plan = self._plan
        convolve(_flat(x), self._weight, self._bias, rule, _flat(out), plan.sizes, plan.scratch())
        return out


class Plan:
    """The sizes for a shape, and each thread's memory, shared by all convolutions of that shape."""

    def __init__(self, shape: ConvShape) -> None:
        tall, wide = tile_length(shape.rows), tile_length(shape.cols)
        self.sizes = Sizes(shape.rows, shape.cols, shape.channels, tall, wide, GROUP)
        self._of_thread = threading.local()

    def scratch(self) -> Scratch:
        """Return the calling thread's memory."""
        of_thread = self._of_thread.__dict__
        if not of_thread:
            sizes = self.sizes
            down, across = tiles_of(sizes)
            board = (down * sizes.tall + 2) * (across * sizes.wide + 2) * sizes.channels
            numbers = (sizes.tall + 2) * (sizes.wide + 2)  # of a tile of inputs
            tile, matrices = numbers * VECTOR, numbers * pitch_of(sizes)
            lengths = (board, tile, tile, matrices, matrices)
            of_thread["scratch"] = Scratch(*(np.zeros(length, np.float32) for length in lengths))
        found: Scratch = of_thread["scratch"]
        return found


plan_of = lru_cache(Plan)


def _flat(x: Tensor) -> npt.NDArray[np.float32]:
    """Return the numbers of `x [n, channels, rows, cols]` as they lie in memory. Raises RuntimeError unless
    `x` is channels-last."""
    array: npt.NDArray[np.float32] = x.permute(0, 2, 3, 1).view(-1).numpy()
    return array
