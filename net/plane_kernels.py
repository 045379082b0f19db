"""Conversions into and out of a network on a CPU, a position at a time: bits to planes, logits to priors."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from games.bits import ONE, ZERO, count_trailing_zeros
from games.jit import jit, signed

F32 = npt.NDArray[np.float32]
U16 = npt.NDArray[np.uint16]
Words = npt.NDArray[np.uint64]
Numbers = npt.NDArray[Any]
"""float32, or bfloat16 as uint16."""


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
def expand_scalars(packed_features: Words, places: npt.NDArray[np.int64], scalars: F32) -> None:
    """Write packed scalars to the first columns of `scalars` (float32[n, scalars]).

    packed_features: [n, feature_words]. places: [packed scalars, 4] of each: word, lowest bit, mask of its
    width, divisor.
    """
    for row in range(packed_features.shape[0]):
        for k in range(places.shape[0]):
            word, shift, divisor = places[k, 0], np.uint64(places[k, 1]), places[k, 3]
            count = signed(packed_features[row, word] >> shift) & places[k, 2]
            scalars[row, k] = np.float32(min(count, divisor)) / np.float32(divisor)


@jit
def write_planes(binary_words: Words, scalars: Numbers, masks: Words, one: Any, planes: Numbers) -> None:
    """Write the planes of packed positions. Few bits are set, so zeros are written first, and then ones to
    their cells.

    binary_words: [n, binary planes * words per plane]; later words are ignored. scalars: [n, scalars]. masks:
    [words per plane] the bits that are cells; all others are ignored. one: 1 in their number format. planes:
    [n, cells, planes], channels-last.
    """
    parts = masks.shape[0]
    cells = planes.shape[1]
    binary_planes = planes.shape[2] - scalars.shape[1]
    for row in range(binary_words.shape[0]):
        planes[row] = 0
        for plane in range(binary_planes):
            for part in range(parts):
                bits = binary_words[row, plane * parts + part] & masks[part]
                while bits != ZERO:
                    planes[row, 64 * part + int(count_trailing_zeros(bits)), plane] = one
                    bits &= bits - ONE
        for k in range(scalars.shape[1]):
            for cell in range(cells):
                planes[row, cell, binary_planes + k] = scalars[row, k]


@jit
def legal_priors(logits: F32, counts: U16, actions: U16, priors: F32) -> None:
    """Softmax over the legal actions of each position.

    logits [n, all actions], counts [n], actions and priors [sum of counts]
    """
    at = 0
    for row in range(counts.shape[0]):
        end = at + int(counts[row])
        largest = np.float32(-np.inf)
        for k in range(at, end):
            priors[k] = logits[row, actions[k]]
            largest = max(largest, priors[k])
        total = np.float32(0)
        for k in range(at, end):
            priors[k] = np.exp(priors[k] - largest)
            total += priors[k]
        for k in range(at, end):
            priors[k] /= total
        at = end
