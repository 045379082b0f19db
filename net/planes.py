"""Turns packed features into the planes that a network takes.

`Game.feature_words` describes the words: bits of planes, codes of cells, packed scalars, float32. Planes come
in the same order. `PlaneShape` knows where each block begins; `Planes` makes planes on any device of torch,
for training and GPUs. Torch has few operations on uint64, so it gets the same bits as int64. On a CPU, a
tower needs no planes: `net.cpu.kernels.start_block` reads what `binary_words` and `scalar_values` return.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from azselfplay.games.bits import ONE
from azselfplay.games.jit import jit, signed
from azselfplay.games.spec import CodedCells, Game, PackedScalars

Words = npt.NDArray[np.uint64]
WORD_BYTES = 8


@dataclass(frozen=True)
class PlaneShape:
    """The blocks that the words of one position are split into: bits, codes, packed scalars, float32."""

    rows: int
    cols: int
    history: int
    bit_planes: int
    """Planes of bits, of all positions together."""
    coded_cells: CodedCells | None
    scalars_per_position: PackedScalars
    scalars_once: PackedScalars
    scalar_planes: int
    """Scalars that are sent as a float32."""

    @staticmethod
    def of(game: Game, history: int) -> PlaneShape:
        packed = game.scalars_per_position, game.scalars_once
        blocks = game.bit_planes(history), game.coded_cells, *packed, game.scalar_planes
        return PlaneShape(game.rows, game.cols, history, *blocks)

    @property
    def cells(self) -> int:
        return self.rows * self.cols

    @property
    def words_per_plane(self) -> int:
        return (self.cells + 63) // 64

    @property
    def bit_words(self) -> int:
        """Words of the first block."""
        return self.bit_planes * self.words_per_plane

    @property
    def code_words(self) -> int:
        """Words of one position in the second block."""
        return 0 if self.coded_cells is None else self.coded_cells.words(self.cells)

    @property
    def end_of_codes(self) -> int:
        return self.bit_words + self.history * self.code_words

    @property
    def packed_scalars(self) -> int:
        """Planes of the third block, which come before those of float32."""
        return self.scalars_per_position.planes * self.history + self.scalars_once.planes

    @property
    def scalars(self) -> int:
        """Planes that hold the same number in every cell."""
        return self.packed_scalars + self.scalar_planes

    @property
    def binary_planes(self) -> int:
        """Planes of zeros and ones: those of bits, then those of codes."""
        coded = 0 if self.coded_cells is None else self.coded_cells.planes
        return self.bit_planes + self.history * coded

    @property
    def planes(self) -> int:
        return self.binary_planes + self.scalars

    @property
    def feature_words(self) -> int:
        packed = self.scalars_per_position.words * self.history + self.scalars_once.words
        return self.end_of_codes + packed + self.scalar_planes

    def masks(self) -> Words:
        """Return `uint64[words_per_plane]`: the bits of a plane's words that are cells of the board."""
        bits = np.arange(64 * self.words_per_plane) < self.cells
        return np.packbits(bits, bitorder="little").view(np.uint64)

    def binary_words(self, packed_features: Words) -> Words:
        """Return `uint64[n, binary_planes * words_per_plane or more]` of `packed_features [n,
        feature_words]`: a bit for each cell of each binary plane. Returns the features themselves if cells
        have no codes."""
        coded = self.coded_cells
        if coded is None:
            return packed_features
        n = len(packed_features)
        bits = np.zeros((n, self.history, coded.planes, self.words_per_plane), np.uint64)
        codes = packed_features[:, self.bit_words : self.end_of_codes]
        expand_codes(np.ascontiguousarray(codes), coded.bits, _lists(coded), self.cells, bits)
        return np.concatenate([packed_features[:, : self.bit_words], bits.reshape(n, -1)], axis=1)

    def scalar_values(self, packed_features: Words) -> npt.NDArray[np.float32]:
        """Return `float32[n, scalars]` of `packed_features [n, feature_words]`."""
        # The float32 scalars come last, one in the lower half of each word.
        floats = packed_features[:, self.feature_words - self.scalar_planes :]
        if self.packed_scalars == 0:
            return floats.astype(np.uint32).view(np.float32)
        found = np.empty((len(packed_features), self.scalars), np.float32)
        expand_scalars(np.ascontiguousarray(packed_features), scalar_places(self), found)
        found[:, self.packed_scalars :] = floats.astype(np.uint32).view(np.float32)
        return found


@cache
def scalar_places(shape: PlaneShape) -> npt.NDArray[np.int64]:
    """Return `[packed scalars, 4]`: of each scalar the word, the lowest bit, the mask of its width, and the
    divisor."""
    each, once = shape.scalars_per_position, shape.scalars_once
    # In the order of the words: position after position, then the scalars that all share.
    blocks = [each] * shape.history + [once]
    begins = shape.end_of_codes + each.words * np.arange(shape.history + 1)
    return np.concatenate(
        [block.places() + np.array([begin, 0, 0, 0]) for block, begin in zip(blocks, begins, strict=True)]
    )


_lists = cache(CodedCells.lists)


@jit
def expand_codes(
    codes: Words, code_bits: int, lists: npt.NDArray[np.int16], cells: int, binary_words: Words
) -> None:
    """Write the codes of cells as bit planes.

    codes: [n, positions * words per position], `64 // code_bits` cells a word. lists: [2 ** code_bits, most]
    planes that each code sets, then -1 (`CodedCells.lists`). binary_words: [n, positions, planes,
    words_per_plane], all 0.
    """
    a_word = 64 // code_bits
    words = (cells + a_word - 1) // a_word
    mask = (ONE << np.uint64(code_bits)) - ONE
    for row in range(binary_words.shape[0]):
        for position in range(binary_words.shape[1]):
            for cell in range(cells):
                word = codes[row, position * words + cell // a_word]
                code = (word >> np.uint64(cell % a_word * code_bits)) & mask
                for plane in lists[code]:
                    if plane < 0:
                        break
                    binary_words[row, position, plane, cell // 64] |= ONE << np.uint64(cell % 64)


@jit
def expand_scalars(
    packed_features: Words, places: npt.NDArray[np.int64], scalars: npt.NDArray[np.float32]
) -> None:
    """Write packed scalars to the first columns of `scalars` (float32[n, scalars]).

    packed_features: [n, feature_words]. places: [packed scalars, 4] of each: word, lowest bit, mask of its
    width, divisor.
    """
    for row in range(packed_features.shape[0]):
        for k in range(places.shape[0]):
            word, shift, divisor = places[k, 0], np.uint64(places[k, 1]), places[k, 3]
            count = signed(packed_features[row, word] >> shift) & places[k, 2]
            scalars[row, k] = np.float32(min(count, divisor)) / np.float32(divisor)


# ---- In torch ----------------------------------------------------------------------------------------


def features_tensor(packed_features: Words) -> Tensor:
    """Return the same memory as an int64 tensor `[n, words]`, without copying."""
    return torch.from_numpy(np.ascontiguousarray(packed_features).view(np.int64))


class Planes(nn.Module):
    """Turns packed features `int64[n, words]` into planes `dtype[n, planes, rows, cols]`, on any device.

    Its tables are buffers, so that they move with the module, and so that torch.compile sees one graph for
    every game: it cannot look into a cached function.
    """

    bits: Tensor
    code_shifts: Tensor
    codes: Tensor
    scalars: Tensor

    def __init__(self, shape: PlaneShape, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self._shape = shape
        self._dtype = dtype
        tables: dict[str, npt.NDArray[Any]] = {"bits": np.uint8(1) << np.arange(8, dtype=np.uint8)}
        if (coded := shape.coded_cells) is not None:
            tables["code_shifts"] = coded.bits * np.arange(coded.cells_a_word)
            tables["codes"] = coded.table()
        if shape.packed_scalars:
            tables["scalars"] = scalar_places(shape).T.copy()
        for name, table in tables.items():
            # Not persistent: the tables follow from the game, and weights files do not hold them.
            tensor = torch.from_numpy(table)
            self.register_buffer(name, tensor.to(dtype) if name == "codes" else tensor, persistent=False)

    def forward(self, packed_features: Tensor) -> Tensor:
        """Return the planes. Works on bytes with a mask of eight bits, because shifting int64 would move
        eight times the memory."""
        shape, n = self._shape, packed_features.shape[0]
        octets = packed_features[:, : shape.bit_words].contiguous().view(torch.uint8)
        octets = octets.view(n, shape.bit_planes, shape.words_per_plane * WORD_BYTES)
        # Unless a board has a multiple of 64 cells, the end of its last word is empty.
        octets = octets[:, :, : (shape.cells + 7) // 8]
        planes = (octets.unsqueeze(-1) & self.bits).ne(0).flatten(2)[:, :, : shape.cells].to(self._dtype)
        if (coded := shape.coded_cells) is not None:
            words = packed_features[:, shape.bit_words : shape.end_of_codes]
            words = words.reshape(n, shape.history, shape.code_words, 1)
            codes = ((words >> self.code_shifts) & ((1 << coded.bits) - 1)).flatten(2)[:, :, : shape.cells]
            of_codes = self.codes[codes]  # [n, positions, cells, planes of a position]
            planes = torch.cat([planes, of_codes.transpose(2, 3).flatten(1, 2)], dim=1)
        if shape.scalars:
            floats = packed_features[:, shape.feature_words - shape.scalar_planes :]
            # A float32 is the lower half of its word.
            scalars = floats.contiguous().view(torch.float32)[:, ::2]
            if shape.packed_scalars:
                word, shift, mask, divisor = self.scalars
                counts = torch.minimum((packed_features[:, word] >> shift) & mask, divisor)
                scalars = torch.cat([counts.float() / divisor, scalars], dim=1)
            planes = torch.cat(
                [planes, scalars.to(self._dtype).unsqueeze(-1).expand(-1, -1, shape.cells)], dim=1
            )
        return planes.reshape(n, shape.planes, shape.rows, shape.cols)


def unpack(packed_features: Tensor, shape: PlaneShape, dtype: torch.dtype = torch.float32) -> Tensor:
    """Return the planes of one batch on the CPU; for many batches keep a `Planes`."""
    planes: Tensor = Planes(shape, dtype)(packed_features)
    return planes
