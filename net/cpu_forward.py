"""A folded residual tower on one CPU core: jitted first layer, squeeze-excitation and heads, oneDNN in
between.

The weights are shared by all threads; scratch memory belongs to a `CpuForward`, so each thread has its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from games.jit import bind
from games.spec import Game
from net import cpu_kernels, head_kernels
from net.architectures.heads import ConvNorm, FlatPolicyHead, PlanesPolicyHead
from net.architectures.residual import ResidualBlock, ResidualNetwork, SqueezeExcitation
from net.batches import Batch
from net.convolutions import Affine, ConvShape
from net.cpu_kernels import FirstLayer
from net.head_kernels import Layer
from net.number_formats import as_numpy, load, load_bf16, same_f32, store, store_bf16
from net.planes import PlaneShape
from net.prepared_convs import Conv, prepared

F32 = npt.NDArray[np.float32]


@cache
def kernels(dtype: torch.dtype) -> SimpleNamespace:
    """The compiled loops for float32 or bfloat16 activations."""
    if dtype == torch.bfloat16:
        tag, formats = "bf16", [(load, load_bf16), (store, store_bf16)]
    else:
        tag, formats = "f32", [(load, same_f32), (store, same_f32)]
    return bind([cpu_kernels, head_kernels], {tag: formats}, allocates=True)


@dataclass(frozen=True)
class Gate:
    """Squeeze-and-excitation of one block, in the format of `squeeze_excite_add`."""

    squeeze: F32
    squeeze_bias: F32
    excite: F32
    excite_bias: F32


class CpuWeights:
    """A folded network laid out for the CPU. `rows` is the number of positions run at once."""

    def __init__(
        self, network: ResidualNetwork, game: Game, history: int, dtype: torch.dtype, rows: int
    ) -> None:
        self.dtype = dtype
        self.rows = rows
        self.shape = PlaneShape.of(game, history)
        self.channels = _up(network.architecture.channels)

        def conv(layer: ConvNorm) -> Conv:
            wide = _widen(Affine.of(layer.conv), self.channels, self.channels)
            return prepared(wide, self.conv_shape())

        start = _widen(Affine.of(network.start.conv), self.channels, self.shape.planes)
        self.start = FirstLayer(
            masks=self.shape.masks(),
            corners=_corners(game.rows, game.cols, self.channels),
            taps=_taps(start.weight),
            edges=_edges(start.weight, game.rows, game.cols),
            bias=start.bias.numpy(),
        )
        blocks = [block for block in network.blocks if isinstance(block, ResidualBlock)]
        self.blocks = [(conv(block.first), conv(block.second)) for block in blocks]
        self.gates = [None if block.se is None else _gate(block.se, self.channels) for block in blocks]
        policy, value = network.policy, network.value
        self.policy_conv = None if isinstance(policy, FlatPolicyHead) else conv(policy.hidden)
        if isinstance(policy, FlatPolicyHead):
            self.policy_narrow = _pointwise(policy.hidden.conv, self.channels)
            self.policy_out = _over_width(policy.out, self.shape.cells)
        else:
            self.policy_out = _pointwise(policy.out, self.channels)
            self.policy_extra = _extra(policy, self.channels)
        self.value_narrow = _pointwise(value.narrow.conv, self.channels)
        hidden = _over_width(value.hidden, self.shape.cells)
        self.value_hidden = Layer(np.ascontiguousarray(hidden.weight.T), hidden.bias)
        self.value_out = _layer(Affine.of(value.out))

    def conv_shape(self) -> ConvShape:
        """The shape of all 3x3 convolutions except the first layer, which is computed differently."""
        return ConvShape(self.dtype, self.channels, self.shape.rows, self.shape.cols, self.rows)


class CpuForward:
    """Runs up to `rows` positions at once in the calling thread."""

    def __init__(self, weights: CpuWeights, rows: int) -> None:
        shape = weights.shape
        self._weights = weights
        self._kernels = kernels(weights.dtype)
        self._board = np.zeros((shape.rows + 2) * (shape.cols + 2) * weights.channels, np.float32)
        self._base = np.zeros(9 * weights.channels, np.float32)
        self._start = torch.zeros((rows, shape.rows, shape.cols, weights.channels), dtype=weights.dtype)

    def __call__(self, batch: Batch, bucket: int, priors: F32, wdl: F32) -> None:
        """Answer `batch` into `priors [sum of counts]` and `wdl [rows, 3]`, run as `bucket` rows."""
        net = self._weights
        x = self._first_layer(batch, bucket)
        for (first, second), gate in zip(net.blocks, net.gates, strict=True):
            hidden = first.relu(x)
            if gate is None:
                second.add_relu_into(x, hidden)
            else:
                y = second(hidden)
                self._kernels.squeeze_excite_add(
                    self._numbers(y), self._numbers(x), gate.squeeze, gate.squeeze_bias,
                    gate.excite, gate.excite_bias,
                )  # fmt: skip
        self._priors(x, batch, priors)
        self._kernels.win_draw_loss(self._numbers(x), net.value_narrow, net.value_hidden, net.value_out, wdl)

    def _first_layer(self, batch: Batch, bucket: int) -> Tensor:
        net, shape = self._weights, self._weights.shape
        out = self._start[:bucket]
        bits, scalars = shape.binary_words(batch.features), shape.scalar_values(batch.features)
        rows = as_numpy(out)[: batch.rows]
        self._kernels.start_block(bits, scalars, net.start, self._board, self._base, rows)
        return out.permute(0, 3, 1, 2)

    def _priors(self, x: Tensor, batch: Batch, priors: F32) -> None:
        net = self._weights
        if net.policy_conv is None:
            self._kernels.flat_priors(
                self._numbers(x), net.policy_narrow, net.policy_out, batch.counts, batch.actions, priors
            )
        else:
            hidden = self._numbers(net.policy_conv.relu(x))
            legal = batch.counts, batch.actions
            self._kernels.plane_priors(hidden, net.policy_out, net.policy_extra, *legal, priors)

    def _numbers(self, x: Tensor) -> npt.NDArray[Any]:
        """`[n, cells, channels]` of a channels-last tensor, sharing its memory."""
        array = as_numpy(x.permute(0, 2, 3, 1))
        return array.reshape(x.shape[0], -1, self._weights.channels)


def _up(channels: int) -> int:
    return -(-channels // cpu_kernels.LANES) * cpu_kernels.LANES


def _widen(layer: Affine, outputs: int, inputs: int) -> Affine:
    """Pad a layer with zeros for channels that are only padding: they are 0 and nothing reads them."""
    weight = torch.zeros((outputs, inputs, *layer.weight.shape[2:]))
    weight[: layer.weight.shape[0], : layer.weight.shape[1]] = layer.weight
    bias = torch.zeros(outputs)
    bias[: layer.bias.shape[0]] = layer.bias
    return Affine(weight, bias)


def _taps(weight: Tensor) -> F32:
    """`[planes, 3, 3 * channels]`: what a bit adds to the outputs around it, row by row."""
    turned = weight.flip(2, 3).permute(1, 2, 3, 0)
    return turned.reshape(weight.shape[1], 3, -1).contiguous().numpy()


def _edges(weight: Tensor, rows: int, cols: int) -> F32:
    """`[planes, 9 * channels]`: the response to a plane of ones on a first, inner or last row and column."""
    by_row, by_col = _taps_inside(rows), _taps_inside(cols)
    return torch.einsum("cpkl,ik,jl->pijc", weight, by_row, by_col).flatten(1).contiguous().numpy()


def _taps_inside(lines: int) -> Tensor:
    """`[3, 3]`: 1 for the taps that lie on the board, on the first, an inner or the last of `lines` lines."""
    inside = torch.tensor([[0.0, 1.0, 1.0], [1.0, 1.0, 1.0], [1.0, 1.0, 0.0]])
    if lines == 1:  # the first line is also the last one
        inside[0, 2] = 0
    return inside


def _corners(rows: int, cols: int, channels: int) -> npt.NDArray[np.uint64]:
    """Where the three lines of taps of each cell begin, on a board with a border of one cell."""
    row, col = np.divmod(np.arange(rows * cols, dtype=np.uint64), np.uint64(cols))
    return (row * np.uint64(cols + 2) + col) * np.uint64(channels)


def _gate(layers: SqueezeExcitation, channels: int) -> Gate:
    squeeze, excite = Affine.of(layers.squeeze), Affine.of(layers.excite)
    hidden, old = squeeze.weight.shape
    scale = _widen(Affine(excite.weight[:old], excite.bias[:old]), channels, hidden)
    shift = _widen(Affine(excite.weight[old:], excite.bias[old:]), channels, hidden)
    return Gate(
        _widen(squeeze, hidden, channels).weight.T.contiguous().numpy(),
        squeeze.bias.numpy(),
        torch.cat([scale.weight, shift.weight]).T.contiguous().numpy(),
        torch.cat([scale.bias, shift.bias]).numpy(),
    )


def _layer(layer: Affine) -> Layer:
    return Layer(layer.weight.contiguous().numpy(), layer.bias.numpy())


def _pointwise(conv: nn.Conv2d, channels: int) -> Layer:
    """A 1x1 convolution `[planes, channels]`."""
    layer = Affine.of(conv)
    wide = _widen(layer, layer.bias.shape[0], channels)
    return _layer(Affine(wide.weight.flatten(1), wide.bias))


def _extra(policy: PlanesPolicyHead, channels: int) -> Layer:
    """The layer for the logits of extra actions, `[extra actions, channels]`; empty if there are none."""
    if policy.others is None:
        return Layer(np.zeros((0, channels), np.float32), np.zeros(0, np.float32))
    layer = Affine.of(policy.others)
    return _layer(_widen(layer, layer.bias.shape[0], channels))


def _over_width(linear: nn.Linear, cells: int) -> Layer:
    """A linear layer over `[planes, cells]`, padded with zeros for cells that are only padding."""
    layer = Affine.of(linear)
    outputs = layer.weight.shape[0]
    weight = torch.zeros((outputs, layer.weight.shape[1] // cells, _up(cells)))
    weight[:, :, :cells] = layer.weight.view(outputs, -1, cells)
    return _layer(Affine(weight.flatten(1), layer.bias))
