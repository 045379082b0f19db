"""Packed features to the planes a network takes.

`packed_features: uint64[n, feature_words]`: first the bit planes, `words_per_plane` words each, bit `i` =
cell `i`, then one word a scalar plane, the bits of a float32 in its low half. Torch has few operations on
uint64, so here the same bits travel as int64. On a CPU, play needs no planes: see
`net.cpu_kernels.start_block`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from games.spec import Game

Words = npt.NDArray[np.uint64]

WORD_BYTES = 8


@dataclass(frozen=True)
class PlaneShape:
    """How the words of one position are cut into planes."""

    rows: int
    cols: int
    bit_planes: int
    scalar_planes: int
    words_per_plane: int

    @staticmethod
    def of(game: Game, history: int) -> PlaneShape:
        return PlaneShape(
            game.rows, game.cols, game.bit_planes(history), game.scalar_planes, game.words_per_plane
        )

    @property
    def cells(self) -> int:
        return self.rows * self.cols

    @property
    def planes(self) -> int:
        return self.bit_planes + self.scalar_planes

    @property
    def feature_words(self) -> int:
        return self.bit_planes * self.words_per_plane + self.scalar_planes

    def masks(self) -> Words:
        """`uint64[words_per_plane]`: the bits of a plane's words that are cells of the board."""
        bits = np.arange(64 * self.words_per_plane) < self.cells
        return np.packbits(bits, bitorder="little").view(np.uint64)


def features_tensor(packed_features: Words) -> Tensor:
    """The same memory as an int64 tensor `[n, words]`, without a copy."""
    return torch.from_numpy(np.ascontiguousarray(packed_features).view(np.int64))


def unpack(packed_features: Tensor, shape: PlaneShape, dtype: torch.dtype = torch.float32) -> Tensor:
    """Planes `dtype[n, planes, rows, cols]` of `packed_features: int64[n, words]`, on the device of
    `packed_features`.

    Works on bytes and a mask of eight bits: shifting int64 would move eight times the memory.
    """
    n = packed_features.shape[0]
    bit_words = shape.bit_planes * shape.words_per_plane
    octets = packed_features[:, :bit_words].contiguous().view(torch.uint8)
    octets = octets.view(n, shape.bit_planes, shape.words_per_plane * WORD_BYTES)
    octets = octets[:, :, : (shape.cells + 7) // 8]
    masks = torch.bitwise_left_shift(
        torch.ones(8, dtype=torch.uint8, device=packed_features.device),
        torch.arange(8, dtype=torch.uint8, device=packed_features.device),
    )
    bits = (octets.unsqueeze(-1) & masks).ne(0).flatten(2)[:, :, : shape.cells].to(dtype)
    if shape.scalar_planes:
        scalars = packed_features[:, bit_words:].contiguous().view(torch.float32)[:, ::2].to(dtype)
        bits = torch.cat([bits, scalars.unsqueeze(-1).expand(-1, -1, shape.cells)], dim=1)
    return bits.reshape(n, shape.planes, shape.rows, shape.cols)
