"""The Go board of one size: which points touch, keys of stones, and masks for rows of bits.

Point `row * size + column`, row 0 below, column 0 at the left. Bit `i % 64` of word `i // 64` is point `i`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

NO_POINT = -1
POINT_BITS = 9
"""The lowest bits of a stone's key are its point: 361 points fit."""
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

    @cached_property
    def beside(self) -> npt.NDArray[np.int64]:
        """[points, 4] the points that touch each, then NO_POINT."""
        found = np.full((self.points, 4), NO_POINT, np.int64)
        for point in range(self.points):
            row, col = divmod(point, self.size)
            near = ((row - 1, col), (row, col - 1), (row, col + 1), (row + 1, col))
            inside = [r * self.size + c for r, c in near if 0 <= r < self.size and 0 <= c < self.size]
            found[point, : len(inside)] = inside
        return found

    @cached_property
    def keys(self) -> npt.NDArray[np.uint64]:
        """[2, points] of a stone of each side on each point (Zobrist, 1970): that of a position is the
        exclusive or of its stones'. The lowest POINT_BITS bits of a key are the point."""
        drawn = np.random.default_rng(KEY_SEED).integers(2**64, size=(2, self.points), dtype=np.uint64)
        low = np.uint64((1 << POINT_BITS) - 1)
        return (drawn & ~low) | np.arange(self.points, dtype=np.uint64)

    def words_of(self, points: Iterable[int]) -> npt.NDArray[np.uint64]:
        """[words] with the bits of some points."""
        bits = sum(1 << point for point in points)
        return np.array([bits >> 64 * word & 0xFFFFFFFFFFFFFFFF for word in range(self.words)], np.uint64)

    def masks(self) -> npt.NDArray[np.uint64]:
        """[3, words] all points; all but those of the first column; all but those of the last."""
        points, size = range(self.points), self.size
        rows = (
            points,
            (point for point in points if point % size > 0),
            (point for point in points if point % size < size - 1),
        )
        return np.array([self.words_of(one) for one in rows])
