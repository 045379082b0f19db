"""Operations that torch runs slowly at our sizes on a CPU, as jitted loops over one position at a time.

First comes the input of a network (bits to the first layer), then squeeze-and-excitation, then the heads:
priors over the legal actions only, win/draw/loss. `net.cpu.engine` compiles the kernels once for float32 and
once for bfloat16, which differ in `load` and `store`.

A library's matrix product chooses its order of addition by the number of rows, so the last bit of an answer
would depend on how many positions run together. These loops add in the same order for every position.

Activations are channels-last, `[n, cells, channels]`. `channels` is a multiple of LANES; `width` is the
number of cells, rounded up to a multiple of LANES.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from torch import Tensor

from azselfplay.games.bits import ONE, ZERO, count_ones, count_trailing_zeros
from azselfplay.games.jit import copy, kernel

F32 = npt.NDArray[np.float32]
U16 = npt.NDArray[np.uint16]
Words = npt.NDArray[np.uint64]
Activations = npt.NDArray[Any]
LANES = 16
ZERO_F32 = np.float32(0)


# ---- From the bits of a position to the first layer -------------------------------------------------


class FirstLayer(NamedTuple):
    """The first 3x3 convolution, arranged for bits."""

    masks: Words
    """[words_per_plane]: the bits that are cells; all others are ignored."""
    corners: npt.NDArray[np.uint64]
    """[cells]: where the nine taps of a cell begin on `start_block`'s board."""
    taps: F32
    """[planes, 3, 3 * channels]: weights by offset of the output from the bit."""
    edges: F32
    """[planes, 9 * channels]: response to a plane full of ones, by (first, inner, last) row and column."""
    bias: F32
    """[channels]"""


@kernel
def start_block(
    binary_words: Words, scalars: F32, layer: FirstLayer, board: F32, base: F32, out: Activations
) -> None:
    """Compute the first 3x3 convolution and ReLU directly from the bits: each set bit adds its nine taps.

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
        # Each cell has two sums. `board`: the taps of set bits, with a margin of one cell for taps beyond the
        # edge, so that no tap needs a test. `base`: the bias and the planes that are the same everywhere.
        # There are nine of these, because a cell's place at the edges decides which of its taps lie on the
        # board.
        board[:] = ZERO_F32
        for i in range(9):
            for c in range(channels):
                base[i * channels + c] = layer.bias[c]
        for plane in range(binary_planes):
            first = plane * words_per_plane
            ones = 0
            for part in range(words_per_plane):
                ones += int(count_ones(binary_words[row, first + part] & layer.masks[part]))
            if ones == rows * cols:  # such as the side to move: one addition instead of 9 a cell
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
        # A scalar's plane holds the same number everywhere.
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

    `corners [cells]`: where the taps of a cell begin on `board`. `taps`: flat; a plane's nine begin at
    `first_tap`. `positions`: numbers in a row of `board`. `width`: numbers in a row of three taps. Indices
    are unsigned, because Numba would otherwise test whether each is negative.
    """
    while bits != ZERO:
        corner = corners[cell_of_bit_0 + int(count_trailing_zeros(bits))]
        bits &= bits - ONE
        # The three taps of a row and their channels lie side by side, on the board and in the weights.
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
    """Apply ReLU to the sums, and write the results in the network's format."""
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


# ---- In each block ---------------------------------------------------------------------------------


@kernel
def squeeze_excite_add(
    y: Activations, x: Activations, squeeze: F32, squeeze_bias: F32, excite: F32, excite_bias: F32
) -> None:
    """Compute `x = relu(y * sigmoid(scale) + shift + x)` in place, with scale and shift from the mean of `y`.

    y, x `[n, cells, channels]`; squeeze `[channels, hidden]`; excite `[hidden, 2 * channels]`.
    """
    cells, channels = y.shape[1:]
    mean = np.empty(channels, np.float32)
    hidden = np.empty(squeeze.shape[1], np.float32)
    gates = np.empty(2 * channels, np.float32)
    for row in range(y.shape[0]):
        average(y, row, mean)
        # The inner loops run over outputs, which are neighbours in memory: so Numba finds vector
        # instructions, and no sum across a vector is needed.
        copy(squeeze_bias, hidden)
        for c in range(channels):
            for h in range(hidden.shape[0]):
                hidden[h] += mean[c] * squeeze[c, h]
        copy(excite_bias, gates)
        for h in range(hidden.shape[0]):
            if hidden[h] > ZERO_F32:  # ReLU: about half of them need no work
                for g in range(gates.shape[0]):
                    gates[g] += hidden[h] * excite[h, g]
        for c in range(channels):
            gates[c] = np.float32(1) / (np.float32(1) + np.exp(-gates[c]))
        for cell in range(cells):
            for c in range(channels):
                gated = load(y[row, cell, c]) * gates[c] + gates[channels + c]
                x[row, cell, c] = store(max(gated + load(x[row, cell, c]), ZERO_F32))


# ---- Heads -----------------------------------------------------------------------------------------


class Layer(NamedTuple):
    """`weight` and `bias` of one layer; each kernel documents the layout of the weight."""

    weight: F32
    bias: F32


@kernel
def plane_priors(
    hidden: Activations, out: Layer, extra: Layer, counts: U16, actions: U16, priors: F32
) -> None:
    """Write priors of the legal actions: the last 1x1 convolution, only where it is needed, then softmax.

    hidden `[n, cells, channels]`, out.weight `[policy_planes, channels]`, priors `[sum of counts]`;
    extra.weight `[extra actions, channels]` is for the mean over the board.
    """
    cells, channels = hidden.shape[1:]
    first_extra = out.bias.shape[0] * cells
    mean = np.empty(channels, np.float32)
    lanes = np.empty(LANES, np.float32)
    at = 0
    for row in range(counts.shape[0]):
        end = at + int(counts[row])
        has_mean = False
        for k in range(at, end):
            if int(actions[k]) >= first_extra:  # a pass: only such positions need the mean
                if not has_mean:
                    average(hidden, row, mean)
                    has_mean = True
                priors[k] = extra_logit(mean, extra, int(actions[k]) - first_extra)
                continue
            cell = int(actions[k]) % cells
            plane = int(actions[k]) // cells
            # LANES sums side by side, added at the end: this allows vector instructions, and fixes the order.
            lanes[:] = ZERO_F32
            for c in range(0, channels, LANES):
                for j in range(LANES):
                    lanes[j] += load(hidden[row, cell, c + j]) * out.weight[plane, c + j]
            total = out.bias[plane]
            for j in range(LANES):
                total += lanes[j]
            priors[k] = total
        softmax(priors[at:end])
        at = end


@kernel
def average(hidden: Activations, row: int, mean: F32) -> None:
    """Write the mean over the board of row `row` of `hidden [n, cells, channels]` to `mean [channels]`."""
    cells, channels = hidden.shape[1:]
    mean[:] = ZERO_F32
    for cell in range(cells):
        for c in range(channels):
            mean[c] += load(hidden[row, cell, c])
    for c in range(channels):
        mean[c] /= np.float32(cells)


@kernel
def extra_logit(mean: F32, extra: Layer, action: int) -> np.float32:
    """Return the logit of an extra action from `mean [channels]`, extra.weight `[extra actions,
    channels]`."""
    total: np.float32 = extra.bias[action]
    for c in range(mean.shape[0]):
        total += mean[c] * extra.weight[action, c]
    return total


@kernel
def flat_priors(x: Activations, narrow: Layer, out: Layer, counts: U16, actions: U16, priors: F32) -> None:
    """Write the priors of a fully connected policy: only the legal actions are computed.

    x `[n, cells, channels]`, narrow.weight `[planes, channels]`, out.weight `[actions, planes * width]`.
    """
    turned, flat = scratch(x, narrow)
    lanes = np.empty(LANES, np.float32)
    at = 0
    for row in range(counts.shape[0]):
        end = at + int(counts[row])
        pointwise(x, row, narrow, turned, flat)
        for k in range(at, end):
            action = int(actions[k])
            # As in `plane_priors`.
            lanes[:] = ZERO_F32
            for i in range(0, flat.shape[0], LANES):
                for j in range(LANES):
                    lanes[j] += flat[i + j] * out.weight[action, i + j]
            total = out.bias[action]
            for j in range(LANES):
                total += lanes[j]
            priors[k] = total
        softmax(priors[at:end])
        at = end


@kernel
def win_draw_loss(x: Activations, narrow: Layer, hidden: Layer, out: Layer, wdl: F32) -> None:
    """Run the value head for the first rows of x, as many as `wdl [rows, 3]` has.

    x `[n, cells, channels]`, narrow.weight `[planes, channels]`, hidden.weight `[planes * width, h]`,
    out.weight `[3, h]` (logits), or `[1, h]` (before tanh, and then there is no draw).
    """
    turned, flat = scratch(x, narrow)
    wide = np.empty(hidden.bias.shape[0], np.float32)
    for row in range(wdl.shape[0]):
        pointwise(x, row, narrow, turned, flat)
        copy(hidden.bias, wide)  # ReLU is applied when they are read
        add_products(flat, hidden.weight, wide)
        for i in range(out.bias.shape[0]):
            total = out.bias[i]
            for h in range(wide.shape[0]):
                total += max(wide[h], ZERO_F32) * out.weight[i, h]
            wdl[row, i] = total
        if out.bias.shape[0] == 3:
            softmax(wdl[row])
        else:
            # A single value says nothing about draws: win and loss share all of the probability.
            value = np.tanh(wdl[row, 0])
            wdl[row, 0] = (np.float32(1) + value) / np.float32(2)
            wdl[row, 1] = ZERO_F32
            wdl[row, 2] = (np.float32(1) - value) / np.float32(2)


@kernel
def scratch(x: Activations, narrow: Layer) -> tuple[F32, F32]:
    """Return memory for `pointwise`, with zeros where a position has no cells."""
    cells, channels = x.shape[1:]
    width = (cells + LANES - 1) // LANES * LANES
    return np.zeros((channels, width), np.float32), np.empty(narrow.bias.shape[0] * width, np.float32)


@kernel
def pointwise(x: Activations, row: int, narrow: Layer, turned: F32, flat: F32) -> None:
    """Run a 1x1 convolution and ReLU on one position.

    turned `[channels, width]`, flat `[planes * width]`: the inner loops run over cells, so no sum across a
    vector is needed.
    """
    cells, channels = x.shape[1:]
    width = turned.shape[1]
    # Transposed once, so that the cells of a channel are neighbours for all planes.
    for cell in range(cells):
        for c in range(channels):
            turned[c, cell] = load(x[row, cell, c])
    for plane in range(narrow.bias.shape[0]):
        sums = flat[plane * width : (plane + 1) * width]
        sums[:] = narrow.bias[plane]
        add_products(narrow.weight[plane], turned, sums)
        for i in range(width):
            sums[i] = max(sums[i], ZERO_F32)


@kernel
def add_products(shares: F32, lines: F32, sums: F32) -> None:
    """`sums [m] += shares [k] @ lines [k, m]`, k a multiple of LANES.

    Adds four lines at a time, so that each sum is read and written a quarter as often.
    """
    for k in range(0, shares.shape[0], 4):
        a, b, c, d = shares[k], shares[k + 1], shares[k + 2], shares[k + 3]
        la, lb, lc, ld = lines[k], lines[k + 1], lines[k + 2], lines[k + 3]
        for i in range(sums.shape[0]):
            sums[i] += (a * la[i] + b * lb[i]) + (c * lc[i] + d * ld[i])


@kernel
def softmax(logits: F32) -> None:
    """Apply softmax in place. Does nothing to an empty list."""
    largest = np.float32(-np.inf)
    for logit in logits:
        largest = max(largest, logit)
    total = ZERO_F32
    for k in range(logits.shape[0]):  # minus the largest, so that no exponential overflows
        logits[k] = np.exp(logits[k] - largest)
        total += logits[k]
    for k in range(logits.shape[0]):
        logits[k] /= total


# ---- Number formats: float32, or bfloat16 as its 16 bits --------------------------------------------


def load(number: Any) -> Any:  # noqa: ARG001
    """Convert an activation to float32, in kernels; bound to `load_bf16` or `same_f32`."""
    raise RuntimeError("this is bound to a format of numbers by azselfplay.games.jit.bind")


def store(number: Any) -> Any:  # noqa: ARG001
    """Convert a float32 to an activation, in kernels; bound to `store_bf16` or `same_f32`."""
    raise RuntimeError("this is bound to a format of numbers by azselfplay.games.jit.bind")


def as_numpy(numbers: Tensor) -> npt.NDArray[Any]:
    """Return the same memory as an array: float32, or bfloat16 as uint16."""
    return numbers.view(torch.uint16).numpy() if numbers.dtype == torch.bfloat16 else numbers.numpy()


@intrinsic
def load_bf16(_typingctx: Any, _bits: Any) -> Any:
    """Return the float32 of a bfloat16 given as uint16: the same bits, followed by 16 zeros."""

    def codegen(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        wide = builder.shl(builder.zext(args[0], ir.IntType(32)), ir.Constant(ir.IntType(32), 16))
        return builder.bitcast(wide, ir.FloatType())

    return types.float32(types.uint16), codegen


@intrinsic
def store_bf16(_typingctx: Any, _number: Any) -> Any:
    """Return the uint16 of the bfloat16 nearest to a finite float32, ties to even."""

    def codegen(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        word = ir.IntType(32)
        bits = builder.bitcast(args[0], word)
        # Add just less than half of the last kept bit, and one more if the kept part is odd: so an exact half
        # goes to the even number.
        odd = builder.and_(builder.lshr(bits, ir.Constant(word, 16)), ir.Constant(word, 1))
        rounded = builder.add(builder.add(bits, ir.Constant(word, 0x7FFF)), odd)
        return builder.trunc(builder.lshr(rounded, ir.Constant(word, 16)), ir.IntType(16))

    return types.uint16(types.float32), codegen


@intrinsic
def same_f32(_typingctx: Any, _number: Any) -> Any:
    """Return a float32 unchanged: `load` and `store` of a float32 network."""

    def codegen(_context: Any, _builder: Any, _signature: Any, args: Any) -> Any:
        return args[0]

    return types.float32(types.float32), codegen
