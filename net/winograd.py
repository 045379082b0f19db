"""3x3 convolutions of a CPU in float32 by Winograd's method (Lavin and Gray 2016, arXiv 1509.09308).

m results in a line, of a filter of three, are A^T ((G filter) * (B^T inputs)): m + 2 products instead of 3 m.
In two dimensions a tile of 4 x 4 results takes 36 products instead of 144. They are products of matrices
[tiles, channels] x [channels, channels], one for each of the 36 numbers of a tile; the rest is additions.
oneDNN's own form of it was written for AVX-512.

bfloat16 has too few bits for it, and processors that multiply bfloat16 faster do not need it.
"""

from __future__ import annotations

import threading
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from net.convolutions import Affine, ConvShape
from net.lanes import LANES
from net.winograd_kernel import Scratch, Sizes, convolve, pitch_of, tiles_of

FILTERS = {
    3: np.array([[3, 0, 0], [-3, -3, -3], [-1, 1, -1], [1, 2, 4], [0, 0, 6]]) / 6,
    4: np.array([[6, 0, 0], [-4, -4, -4], [-4, 4, -4], [1, 2, 4], [1, -2, 4], [0, 0, 24]]) / 24,
}
"""The matrix G for 3 and for 4 results in a line. Longer lines lose digits."""
GROUP = 3
"""Boards whose tiles are multiplied together: few enough to stay in a core's cache, and enough to use each
weight often (docs/decisions/0063)."""


def tile_length(cells: int) -> int:
    """Results in a line of a tile, for lines of so many cells: those that take the fewest products."""
    return min(FILTERS, key=lambda length: -(-cells // length) * (length + 2))


def products(cells: int) -> int:
    """Products for a line of so many cells, instead of three for each cell."""
    length = tile_length(cells)
    return -(-cells // length) * (length + 2)


def saves_enough(shape: ConvShape) -> bool:
    """Whether half of the products are saved, so that the additions pay. On the smallest boards they do
    not."""
    taken, usual = products(shape.rows) * products(shape.cols), 9 * shape.rows * shape.cols
    return shape.dtype == torch.float32 and 2 * taken <= usual


class Plan:
    """The sizes for a shape, and each thread's memory, shared by all convolutions of that shape."""

    def __init__(self, shape: ConvShape) -> None:
        tall, wide = tile_length(shape.rows), tile_length(shape.cols)
        self.sizes = Sizes(shape.rows, shape.cols, shape.channels, tall, wide, GROUP)
        self.numbers = (tall + 2) * (wide + 2)
        """Numbers of a tile of inputs."""
        self._of_thread = threading.local()

    def scratch(self) -> Scratch:
        """The calling thread's."""
        of_thread = self._of_thread.__dict__
        if not of_thread:
            of_thread["scratch"] = self._new_scratch()
        found: Scratch = of_thread["scratch"]
        return found

    def _new_scratch(self) -> Scratch:
        sizes, tile = self.sizes, self.numbers * LANES
        down, across = tiles_of(sizes)
        board = (down * sizes.tall + 2) * (across * sizes.wide + 2) * sizes.channels
        matrices = self.numbers * pitch_of(sizes)
        return Scratch(*(np.zeros(length, np.float32) for length in (board, tile, tile, matrices, matrices)))


@lru_cache
def plan_of(shape: ConvShape) -> Plan:
    return Plan(shape)


class WinogradConv:
    """One convolution with folded normalisation. It is used as `net.packed_convs.PackedConv` is."""

    def __init__(self, layer: Affine, shape: ConvShape) -> None:
        self._plan = plan = plan_of(shape)
        self._bias = layer.bias.numpy()
        tall, wide = (FILTERS[length] for length in (plan.sizes.tall, plan.sizes.wide))
        spread = np.einsum("ia,ocab,jb->ijco", tall, layer.weight.double().numpy(), wide)
        self._weight = spread.astype(np.float32).ravel()

    def __call__(self, x: Tensor) -> Tensor:
        """`[n, channels, rows, cols]` to the same shape, both channels-last in memory."""
        return self._into(torch.empty_like(x), x, (False, False))

    def relu(self, x: Tensor) -> Tensor:
        return self._into(torch.empty_like(x), x, (False, True))

    def add_relu_into(self, total: Tensor, x: Tensor) -> Tensor:
        """`relu(total + convolution(x))`, written to `total`."""
        return self._into(total, x, (True, True))

    def _into(self, out: Tensor, x: Tensor, rule: tuple[bool, bool]) -> Tensor:
        plan = self._plan
        convolve(_flat(x), self._weight, self._bias, rule, _flat(out), plan.sizes, plan.scratch())
        return out


def _flat(x: Tensor) -> npt.NDArray[np.float32]:
    """The numbers of `x [n, channels, rows, cols]` as they lie in memory. Raises RuntimeError unless that is
    channels-last."""
    array: npt.NDArray[np.float32] = x.permute(0, 2, 3, 1).view(-1).numpy()
    return array
