"""Operations that torch does slowly at our sizes on a CPU, as loops over one position at a time.

`net.cpu_forward` compiles them once for float32 and once for bfloat16, which differ in `load` and `store`.
Activations are channels-last, `[n, cells, channels]`. `channels` is a multiple of LANES.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from games.bits import ONE, ZERO, count_ones, count_trailing_zeros
from games.jit import kernel
from net.number_formats import load, store

F32 = npt.NDArray[np.float32]
Words = npt.NDArray[np.uint64]
Activations = npt.NDArray[Any]

LANES = 16
ZERO_F32 = np.float32(0)


class FirstLayer(NamedTuple):
    """The first 3x3 convolution, arranged for bits."""

    masks: Words
    """[words_per_plane] the bits that are cells; all others are ignored."""
    corners: npt.NDArray[np.uint64]
    """[cells] where the nine taps of a cell begin on `start_block`'s board."""
    taps: F32
    """[planes, 3, 3 * channels] weights by offset of the output from the bit."""
    edges: F32
    """[planes, 9 * channels] response to a plane full of ones, by (first, inner, last) row and column."""
    bias: F32
    """[channels]"""


@kernel
def start_block(
    binary_words: Words, scalars: F32, layer: FirstLayer, board: F32, base: F32, out: Activations
) -> None:
    """First 3x3 convolution and ReLU directly from the bits: each set bit adds its nine taps.

    A chess position sets about one cell in thirty, so this does a tenth of the work of the dense form.
    binary_words: [n, binary planes * words per plane]; later words are ignored. scalars: [n, scalars]. board:
    [(rows + 2) * (cols + 2) * channels] and base [9 * channels], scratch. out: [n, rows, cols, channels].
    """
    rows, cols, channels = out.shape[1:]
    binary_planes = layer.taps.shape[0] - scalars.shape[1]
    words_per_plane = layer.masks.shape[0]
    line = (cols + 2) * channels
    flat_taps = layer.taps.reshape(layer.taps.size)
    for row in range(binary_words.shape[0]):
        board[:] = ZERO_F32
        for i in range(9):
            for c in range(channels):
                base[i * channels + c] = layer.bias[c]
        for plane in range(binary_planes):
            first = plane * words_per_plane
            ones = 0
            for part in range(words_per_plane):
                ones += int(count_ones(binary_words[row, first + part] & layer.masks[part]))
            if ones == rows * cols:
                add_scaled(layer.edges, plane, np.float32(1), base)
                continue
            for part in range(words_per_plane):
                bits = binary_words[row, first + part] & layer.masks[part]
                if bits != ZERO:
                    add_bits(
                        bits,
                        layer.corners,
                        64 * part,
                        line,
                        flat_taps,
                        np.uint64(plane * 9 * channels),
                        3 * channels,
                        board,
                    )
        for k in range(scalars.shape[1]):
            if scalars[row, k] != ZERO_F32:
                add_scaled(layer.edges, binary_planes + k, scalars[row, k], base)
        finish_start(board, base, out, row)


@kernel
def add_bits(
    bits: np.uint64,
    corners: npt.NDArray[np.uint64],
    cell_of_bit_0: int,
    positions: int,
    taps: F32,
    first_tap: np.uint64,
    width: int,
    board: F32,
) -> None:
    """Add the nine taps of each bit to `board`, flat and with a margin of one cell.

    `corners [cells]`: where in it the taps of a cell begin. `taps`: flat, a plane's nine from `first_tap` on.
    Indices are unsigned, because Numba would otherwise test whether each is negative.
    """
    while bits != ZERO:
        corner = corners[cell_of_bit_0 + int(count_trailing_zeros(bits))]
        bits &= bits - ONE
        for k in range(3):
            to = corner + np.uint64(k) * np.uint64(positions)
            tap = first_tap + np.uint64(k) * np.uint64(width)
            for j in range(width):
                board[to + np.uint64(j)] += taps[tap + np.uint64(j)]


@kernel
def add_scaled(edges: F32, plane: int, scale: np.float32, base: F32) -> None:
    """Add a plane that holds `scale` everywhere."""
    for j in range(base.shape[0]):
        base[j] += scale * edges[plane, j]


@kernel
def finish_start(board: F32, base: F32, out: Activations, row: int) -> None:
    """Apply ReLU to the sums, and write them in the network's format."""
    rows, cols, channels = out.shape[1:]
    for r in range(rows):
        i = 0 if r == 0 else (2 if r == rows - 1 else 1)
        for q in range(cols):
            j = 0 if q == 0 else (2 if q == cols - 1 else 1)
            at = np.uint64(((r + 1) * (cols + 2) + q + 1) * channels)
            near = np.uint64((3 * i + j) * channels)
            for c in range(channels):
                total = board[at + np.uint64(c)] + base[near + np.uint64(c)]
                out[row, r, q, c] = store(max(total, ZERO_F32))


@kernel
def squeeze_excite_add(
    y: Activations, x: Activations, squeeze: F32, squeeze_bias: F32, excite: F32, excite_bias: F32
) -> None:
    """`x = relu(y * sigmoid(scale) + shift + x)` in place, scale and shift from the mean of `y`.

    y, x `[n, cells, channels]`; squeeze `[channels, hidden]`; excite `[hidden, 2 * channels]`.
    """
    cells, channels = y.shape[1:]
    mean = np.empty(channels, np.float32)
    hidden = np.empty(squeeze.shape[1], np.float32)
    gates = np.empty(2 * channels, np.float32)
    for row in range(y.shape[0]):
        mean[:] = ZERO_F32
        for cell in range(cells):
            for c in range(channels):
                mean[c] += load(y[row, cell, c])
        hidden[:] = squeeze_bias
        for c in range(channels):
            share = mean[c] / np.float32(cells)
            for h in range(hidden.shape[0]):
                hidden[h] += share * squeeze[c, h]
        gates[:] = excite_bias
        for h in range(hidden.shape[0]):
            if hidden[h] > ZERO_F32:
                for g in range(gates.shape[0]):
                    gates[g] += hidden[h] * excite[h, g]
        for c in range(channels):
            gates[c] = np.float32(1) / (np.float32(1) + np.exp(-gates[c]))
        for cell in range(cells):
            for c in range(channels):
                gated = load(y[row, cell, c]) * gates[c] + gates[channels + c]
                x[row, cell, c] = store(max(gated + load(x[row, cell, c]), ZERO_F32))
