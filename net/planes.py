"""Packed features to the planes a network takes.

`words: uint64[n, feature_words]`: first the bit planes, `words_per_plane` words each, bit `i` = cell `i`,
then one word a scalar plane, the bits of a float32 in its low half. Torch has few operations on uint64, so
on the torch side the same bits travel as int64.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from games.bits import ONE, ZERO, count_trailing_zeros
from games.jit import jit
from games.spec import Game

Words = npt.NDArray[np.uint64]

BF16_ONE = np.uint16(0x3F80)
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
    def words(self) -> int:
        return self.bit_planes * self.words_per_plane + self.scalar_planes


def words_tensor(words: Words) -> Tensor:
    """The same memory as an int64 tensor `[n, words]`, without a copy."""
    return torch.from_numpy(np.ascontiguousarray(words).view(np.int64))


def unpack(words: Tensor, shape: PlaneShape, dtype: torch.dtype = torch.float32) -> Tensor:
    """Planes `dtype[n, planes, rows, cols]` of `words: int64[n, words]`, on the device of `words`.

    Works on bytes and a mask of eight bits: shifting int64 would move eight times the memory.
    """
    n = words.shape[0]
    bit_words = shape.bit_planes * shape.words_per_plane
    octets = words[:, :bit_words].contiguous().view(torch.uint8)
    octets = octets.view(n, shape.bit_planes, shape.words_per_plane * WORD_BYTES)
    octets = octets[:, :, : (shape.cells + 7) // 8]
    masks = torch.bitwise_left_shift(
        torch.ones(8, dtype=torch.uint8, device=words.device),
        torch.arange(8, dtype=torch.uint8, device=words.device),
    )
    bits = (octets.unsqueeze(-1) & masks).ne(0).flatten(2)[:, :, : shape.cells].to(dtype)
    if shape.scalar_planes:
        scalars = words[:, bit_words:].contiguous().view(torch.float32)[:, ::2].to(dtype)
        bits = torch.cat([bits, scalars.unsqueeze(-1).expand(-1, -1, shape.cells)], dim=1)
    return bits.reshape(n, shape.planes, shape.rows, shape.cols)


@jit
def _unpack_bits(words: Words, bit_planes: int, words_per_plane: int, one: object, out: npt.NDArray) -> None:  # type: ignore[type-arg]
    for row in range(words.shape[0]):
        for plane in range(bit_planes):
            for part in range(words_per_plane):
                bits = words[row, plane * words_per_plane + part]
                while bits != ZERO:
                    cell = 64 * part + int(count_trailing_zeros(bits))
                    out[row, cell, plane] = one
                    bits &= bits - ONE


def unpack_cells(words: Words, shape: PlaneShape, out: npt.NDArray[np.float32]) -> None:
    """Write the planes into `out: float32[n, cells, >= planes]`, the memory of a channels-last tensor.

    Planes beyond `shape.planes` become 0.
    """
    out[:] = 0
    bit_words = shape.bit_planes * shape.words_per_plane
    _unpack_bits(words, shape.bit_planes, shape.words_per_plane, np.float32(1), out)
    scalars = words[:, bit_words:].astype(np.uint32).view(np.float32)
    out[:, :, shape.bit_planes : shape.planes] = scalars[:, None, :]


def unpack_cells_bf16(words: Words, shape: PlaneShape, out: npt.NDArray[np.uint16]) -> None:
    """As `unpack_cells`, writing the bits of bfloat16 numbers; scalars are rounded to nearest even."""
    out[:] = 0
    bit_words = shape.bit_planes * shape.words_per_plane
    _unpack_bits(words, shape.bit_planes, shape.words_per_plane, BF16_ONE, out)
    bits = words[:, bit_words:].astype(np.uint32)
    rounded = ((bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)).astype(
        np.uint16
    )
    out[:, :, shape.bit_planes : shape.planes] = rounded[:, None, :]
