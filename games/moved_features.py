"""Packed features after a symmetry of the board."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from games.bits import ONE, ZERO
from games.jit import jit

Numbers = npt.NDArray[np.integer]


@jit
def move_features(
    packed_features: npt.NDArray[np.uint64],
    cells: Numbers,
    planes: Numbers,
    code_bits: int,
    history: int,
    moved: npt.NDArray[np.uint64],
) -> None:
    """Write `packed_features` to `moved`, both uint64[feature_words], with everything moved by a symmetry.

    cells: [cells of the board] the target of each cell, with its bits and its code. planes: [bit planes of a
    position] the target of each plane. code_bits: bits of a cell's code, 0 where cells have none.
    """
    # The maps are those of one position and serve the whole history. Bits that are 0 are written as well, so
    # that no branch depends on the data.
    words_a_plane = (len(cells) + 63) // 64
    bit_words = history * len(planes) * words_a_plane
    a_word = 64 // max(code_bits, 1)
    code_words = (len(cells) + a_word - 1) // a_word if code_bits > 0 else 0
    end_of_codes = bit_words + history * code_words
    for word in range(len(moved)):
        moved[word] = ZERO if word < end_of_codes else packed_features[word]
    for plane in range(history * len(planes)):
        kind = plane % len(planes)
        old, new = plane * words_a_plane, (plane - kind + planes[kind]) * words_a_plane
        for cell in range(len(cells)):
            bit = (packed_features[old + cell // 64] >> np.uint64(cell % 64)) & ONE
            goes = cells[cell]
            moved[new + goes // 64] |= bit << np.uint64(goes % 64)
    if code_bits == 0:
        return
    mask = (ONE << np.uint64(code_bits)) - ONE
    for position in range(history):
        first = bit_words + position * code_words
        for cell in range(len(cells)):
            goes = cells[cell]
            code = (packed_features[first + cell // a_word] >> np.uint64(cell % a_word * code_bits)) & mask
            moved[first + goes // a_word] |= code << np.uint64(goes % a_word * code_bits)
