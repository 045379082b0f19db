"""The Go board of one size: neighbouring points, keys of stones, and masks for rows of bits.

Point `row * size + column`, row 0 at the bottom, column 0 at the left. Bit `i % 64` of word `i // 64` is
point `i`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

POINT_BITS = 9
"""The lowest bits of a stone's key are its point; 361 points fit."""
KEY_SEED = 20171218


@dataclass(frozen=True)
class Board:
    """size x size points."""

    size: int

    @property
    def points(self) -> int:
        return self.size * self.size

    @property
    def words(self) -> int:
        """Words of 64 bits that hold a bit for each point."""
        return (self.points + 63) // 64

    @property
    def state_words(self) -> int:
        """Words of a position (`games.go.chains_kernel`)."""
        return 3 * self.words + 2

    def _beside(self, point: int) -> list[int]:
        """The neighbours of a point."""
        row, col = divmod(point, self.size)
        near = ((row - 1, col), (row, col - 1), (row, col + 1), (row + 1, col))
        return [r * self.size + c for r, c in near if 0 <= r < self.size and 0 <= c < self.size]

    @cached_property
    def near_word(self) -> npt.NDArray[np.int64]:
        """[points] the first of the two words that hold each point's neighbours."""
        return np.array([min(self._beside(point)) // 64 for point in range(self.points)])

    @cached_property
    def near(self) -> npt.NDArray[np.uint64]:
        """[points, 2] each point's neighbours, as bits of these two words."""
        found = np.zeros((self.points, 2), np.uint64)
        for point, first in enumerate(self.near_word):
            for other in self._beside(point):
                found[point, other // 64 - first] |= np.uint64(1 << other % 64)
        return found

    @cached_property
    def keys(self) -> npt.NDArray[np.uint64]:
        """[2, points] the key of a stone of each side on each point (Zobrist, 1970): a position's key is the
        exclusive or of its stones' keys. The lowest POINT_BITS bits of a key are the point."""
        drawn = np.random.default_rng(KEY_SEED).integers(2**64, size=(2, self.points), dtype=np.uint64)
        low = np.uint64((1 << POINT_BITS) - 1)
        return (drawn & ~low) | np.arange(self.points, dtype=np.uint64)

    def words_of(self, points: Iterable[int]) -> npt.NDArray[np.uint64]:
        """[words] with the bits of the given points."""
        bits = sum(1 << point for point in points)
        return np.array([bits >> 64 * word & 0xFFFFFFFFFFFFFFFF for word in range(self.words)], np.uint64)

    @property
    def room(self) -> int:
        """Words of working memory that walks need (`games.go.chains_kernel`)."""
        return 2 * (self.words + 1) + self.points

    def masks(self) -> npt.NDArray[np.uint64]:
        """[2, words] all points but those of the first column; all but those of the last."""
        points, size = range(self.points), self.size
        inner = (
            [point for point in points if point % size > 0],
            [point for point in points if point % size < size - 1],
        )
        return np.array([self.words_of(one) for one in inner])
