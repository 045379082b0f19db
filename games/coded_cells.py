"""Cells of a board as numbers, and the planes that these numbers stand for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class CodedCells:
    """Cells that are sent as a small number each, instead of a bit on each of many planes.

    `planes_of[code]` are the planes that a code sets on its cell. Code 0, which also fills positions before
    the start, sets none. Raises ValueError for an invalid table.
    """

    bits: int
    """Bits of a code: 1 to 8."""
    planes_of: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        if not 1 <= self.bits <= 8 or not 2 <= len(self.planes_of) <= 1 << self.bits or self.planes_of[0]:
            raise ValueError(
                f"{len(self.planes_of)} codes of {self.bits} bits: a code has 1 to 8 bits, there are at "
                "least two, and the first sets no plane"
            )
        if sorted(set().union(*self.planes_of)) != list(range(self.planes)):
            raise ValueError("a plane of the coded cells is set by no code")

    @property
    def planes(self) -> int:
        """Number of planes that the codes become."""
        return 1 + max(max(planes, default=-1) for planes in self.planes_of)

    @property
    def cells_a_word(self) -> int:
        """Cells per word, the first in the lowest bits. No code is split between two words."""
        return 64 // self.bits

    def words(self, cells: int) -> int:
        """Words of 64 bits that hold the codes of one position."""
        return -(-cells // self.cells_a_word)

    def lists(self) -> npt.NDArray[np.int16]:
        """[2 ** bits, most planes of a code] the planes of each code, then -1; unused codes set nothing, so
        that any received value can be looked up."""
        found = np.full((1 << self.bits, max(map(len, self.planes_of))), -1, np.int16)
        for code, planes in enumerate(self.planes_of):
            found[code, : len(planes)] = planes
        return found

    def table(self) -> npt.NDArray[np.uint8]:
        """[2 ** bits, planes] 1 where a code sets a plane."""
        found = np.zeros((1 << self.bits, self.planes), np.uint8)
        for code, planes in enumerate(self.planes_of):
            found[code, list(planes)] = 1
        return found
