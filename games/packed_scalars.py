"""Small whole numbers that are sent packed in words, and the planes that they stand for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

MOST_BITS = 16


@dataclass(frozen=True)
class PackedScalars:
    """Scalar planes with the value `count / divisor`, sent as the count.

    A count above its divisor stands for 1, so that any received value becomes a number in [0, 1]. Raises
    ValueError for an invalid field.
    """

    fields: tuple[tuple[int, int], ...] = ()
    """(bits, divisor) of each plane. Fields fill a word from its lowest bits on; a field that does not fit
    into the rest of a word starts the next one."""

    def __post_init__(self) -> None:
        for bits, divisor in self.fields:
            if not (1 <= bits <= MOST_BITS and 1 <= divisor < 1 << bits):
                raise ValueError(
                    f"a field of {bits} bits with the divisor {divisor}: a field has 1 to {MOST_BITS} bits, "
                    "which can hold the divisor, and that is at least 1"
                )

    @property
    def planes(self) -> int:
        return len(self.fields)

    @property
    def words(self) -> int:
        """Words of 64 bits that hold the fields."""
        return 1 + int(self.places()[-1, 0]) if self.fields else 0

    def places(self) -> npt.NDArray[np.int64]:
        """[planes, 4] of each field: its word, its lowest bit there, a mask of its width, its divisor."""
        found = np.zeros((self.planes, 4), np.int64)
        word = used = 0
        for row, (bits, divisor) in zip(found, self.fields, strict=True):
            if used + bits > 64:
                word, used = word + 1, 0
            row[:] = word, used, (1 << bits) - 1, divisor
            used += bits
        return found
