"""The heads of a network on a CPU, one position after the other: priors over legal actions, win/draw/loss.

A library's matrix product chooses its order of addition by the number of rows, so the last bit of an answer
would depend on how many positions are run together. Here every position is added up in the same order.
Compiled like `net.cpu_kernels`. Activations are `[n, cells, channels]`; `width` is cells rounded up to LANES.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from games.jit import kernel
from net.cpu_kernels import LANES, ZERO_F32
from net.number_formats import load

F32 = npt.NDArray[np.float32]
U16 = npt.NDArray[np.uint16]
Activations = npt.NDArray[Any]


class Layer(NamedTuple):
    """`weight` and `bias` of one layer; each kernel documents the layout of the weight."""

    weight: F32
    bias: F32


@kernel
def plane_priors(
    hidden: Activations, out: Layer, extra: Layer, counts: U16, actions: U16, priors: F32
) -> None:
    """Priors over the legal actions: the last 1x1 convolution, only where it is needed, then softmax.

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
            if int(actions[k]) >= first_extra:
                if not has_mean:
                    average(hidden, row, mean)
                    has_mean = True
                priors[k] = extra_logit(mean, extra, int(actions[k]) - first_extra)
                continue
            cell = int(actions[k]) % cells
            plane = int(actions[k]) // cells
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
    """Logit of an extra action from `mean [channels]`, extra.weight `[extra actions, channels]`."""
    total: np.float32 = extra.bias[action]
    for c in range(mean.shape[0]):
        total += mean[c] * extra.weight[action, c]
    return total


@kernel
def flat_priors(x: Activations, narrow: Layer, out: Layer, counts: U16, actions: U16, priors: F32) -> None:
    """Priors of a fully connected policy: only the legal actions are computed.

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
    """The value head for the first rows of x, as many as `wdl [rows, 3]` has.

    x `[n, cells, channels]`, narrow.weight `[planes, channels]`, hidden.weight `[planes * width, h]`,
    out.weight `[3, h]` (logits), or `[1, h]` (before tanh, and then there is no draw).
    """
    turned, flat = scratch(x, narrow)
    wide = np.empty(hidden.bias.shape[0], np.float32)
    for row in range(wdl.shape[0]):
        pointwise(x, row, narrow, turned, flat)
        wide[:] = hidden.bias
        add_products(flat, hidden.weight, wide)
        for i in range(out.bias.shape[0]):
            total = out.bias[i]
            for h in range(wide.shape[0]):
                total += max(wide[h], ZERO_F32) * out.weight[i, h]
            wdl[row, i] = total
        if out.bias.shape[0] == 3:
            softmax(wdl[row])
        else:
            value = np.tanh(wdl[row, 0])
            wdl[row, 0] = (np.float32(1) + value) / np.float32(2)
            wdl[row, 1] = ZERO_F32
            wdl[row, 2] = (np.float32(1) - value) / np.float32(2)


@kernel
def scratch(x: Activations, narrow: Layer) -> tuple[F32, F32]:
    """Memory for `pointwise`, with zeros where a position has no cells."""
    cells, channels = x.shape[1:]
    width = (cells + LANES - 1) // LANES * LANES
    return np.zeros((channels, width), np.float32), np.empty(narrow.bias.shape[0] * width, np.float32)


@kernel
def pointwise(x: Activations, row: int, narrow: Layer, turned: F32, flat: F32) -> None:
    """1x1 convolution and ReLU of one position.

    turned `[channels, width]`, flat `[planes * width]`: with loops over cells no sum is needed at the end.
    """
    cells, channels = x.shape[1:]
    width = turned.shape[1]
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

    Four lines at a time: each sum is read and written a quarter as often.
    """
    for k in range(0, shares.shape[0], 4):
        a, b, c, d = shares[k], shares[k + 1], shares[k + 2], shares[k + 3]
        la, lb, lc, ld = lines[k], lines[k + 1], lines[k + 2], lines[k + 3]
        for i in range(sums.shape[0]):
            sums[i] += (a * la[i] + b * lb[i]) + (c * lc[i] + d * ld[i])


@kernel
def softmax(logits: F32) -> None:
    """Softmax in place. Does nothing with an empty list."""
    largest = np.float32(-np.inf)
    for logit in logits:
        largest = max(largest, logit)
    total = ZERO_F32
    for k in range(logits.shape[0]):
        logits[k] = np.exp(logits[k] - largest)
        total += logits[k]
    for k in range(logits.shape[0]):
        logits[k] /= total
