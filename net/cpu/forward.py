"""A folded network on one CPU core, for a chunk of positions that stays in the core's cache.

A residual tower runs as `CpuForward`: the first layer, squeeze-and-excitation and the heads are jitted loops
(`net.cpu.kernels`), and the 3x3 convolutions between them come from `net.cpu.convolutions`. `CpuWeights` lays
the weights out for these, with channels rounded up to a multiple of LANES by zeros that nothing reads. Any
other family runs as the torch module that it is (`ModuleOnCpu`).

Weights are shared by all threads; scratch memory belongs to the forward, so each thread has its own.
"""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from azselfplay.games.jit import bind
from azselfplay.games.spec import Game
from net.architectures.network import ConvNorm, FlatPolicyHead, Network, wdl_of
from net.architectures.residual import ResidualBlock, ResidualNetwork, SqueezeExcitation
from net.batches import Batch
from net.cpu import kernels as cpu_kernels
from net.cpu.convolutions import Affine, Conv, ConvShape, prepared
from net.cpu.kernels import (
    LANES,
    FirstLayer,
    Layer,
    as_numpy,
    legal_priors,
    load,
    load_bf16,
    same_f32,
    store,
    store_bf16,
    write_planes,
)
from net.planes import PlaneShape

F32 = npt.NDArray[np.float32]


@cache
def kernels(dtype: torch.dtype) -> SimpleNamespace:
    """The compiled loops for float32 or bfloat16 activations."""
    if dtype == torch.bfloat16:
        tag, formats = "bf16", [(load, load_bf16), (store, store_bf16)]
    else:
        tag, formats = "f32", [(load, same_f32), (store, same_f32)]
    return bind([cpu_kernels], {tag: formats}, allocates=True)


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
        net, shape, run = self._weights, self._weights.shape, self._kernels
        bits, scalars = shape.binary_words(batch.features), shape.scalar_values(batch.features)
        start = self._start[:bucket]
        run.start_block(bits, scalars, net.start, self._board, self._base, as_numpy(start)[: batch.rows])
        x = start.permute(0, 3, 1, 2)
        for (first, second), gate in zip(net.blocks, net.gates, strict=True):
            hidden = first.relu(x)
            if gate is None:  # the addition and ReLU are part of the convolution
                second.add_relu_into(x, hidden)
            else:
                run.squeeze_excite_add(self._numbers(second(hidden)), self._numbers(x), *gate)
        legal = batch.counts, batch.actions, priors
        if net.policy_conv is None:
            run.flat_priors(self._numbers(x), net.policy_narrow, net.policy_out, *legal)
        else:
            hidden = net.policy_conv.relu(x)
            run.plane_priors(self._numbers(hidden), net.policy_out, net.policy_extra, *legal)
        run.win_draw_loss(self._numbers(x), net.value_narrow, net.value_hidden, net.value_out, wdl)

    def _numbers(self, x: Tensor) -> npt.NDArray[Any]:
        """`[n, cells, channels]` of a channels-last tensor, sharing its memory."""
        array = as_numpy(x.permute(0, 2, 3, 1))
        return array.reshape(x.shape[0], -1, self._weights.channels)


class ModuleOnCpu:
    """Runs up to `rows` positions at once in the calling thread. The module is shared; memory is its own."""

    def __init__(self, module: Network, shape: PlaneShape, dtype: torch.dtype, rows: int) -> None:
        self._module, self._shape, self._masks = module, shape, shape.masks()
        self._planes = torch.zeros((rows, shape.rows, shape.cols, shape.planes), dtype=dtype)
        self._one = as_numpy(torch.ones(1, dtype=dtype))[0]

    def __call__(self, batch: Batch, bucket: int, priors: F32, wdl: F32) -> None:
        """Answer `batch` into `priors [sum of counts]` and `wdl [rows, 3]`, run as `bucket` rows."""
        shape = self._shape
        scalars = torch.from_numpy(shape.scalar_values(batch.features))
        numbers = as_numpy(scalars.to(self._planes.dtype))
        planes = as_numpy(self._planes).reshape(-1, shape.cells, shape.planes)
        write_planes(shape.binary_words(batch.features), numbers, self._masks, self._one, planes)
        logits, value_logits = self._module(self._planes[:bucket].permute(0, 3, 1, 2))
        legal_priors(logits[: batch.rows].float().numpy(), batch.counts, batch.actions, priors)
        wdl[:] = wdl_of(value_logits).numpy()[: batch.rows]


# ---- Weights ---------------------------------------------------------------------------------------


class Gate(NamedTuple):
    """Squeeze-and-excitation of one block, in the format of `squeeze_excite_add`."""

    squeeze: F32
    squeeze_bias: F32
    excite: F32
    excite_bias: F32

    @staticmethod
    def of(layers: SqueezeExcitation, channels: int) -> Gate:
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


class CpuWeights:
    """A folded network laid out for the CPU. `rows` is the number of positions run at once."""

    def __init__(
        self, network: ResidualNetwork, game: Game, history: int, dtype: torch.dtype, rows: int
    ) -> None:
        self.dtype = dtype
        self.shape = PlaneShape.of(game, history)
        self.channels = channels = _up(network.architecture.channels)
        conv_shape = ConvShape(dtype, channels, game.rows, game.cols, rows)

        def conv(layer: ConvNorm) -> Conv:
            return prepared(_widen(Affine.of(layer.conv), channels, channels), conv_shape)

        start = _widen(Affine.of(network.start.conv), channels, self.shape.planes)
        self.start = first_layer(start, self.shape)
        blocks = [block for block in network.blocks if isinstance(block, ResidualBlock)]
        self.blocks = [(conv(block.first), conv(block.second)) for block in blocks]
        self.gates = [None if block.se is None else Gate.of(block.se, channels) for block in blocks]
        policy, value = network.policy, network.value
        self.policy_conv = None if isinstance(policy, FlatPolicyHead) else conv(policy.hidden)
        if isinstance(policy, FlatPolicyHead):
            self.policy_narrow = _pointwise(policy.hidden.conv, channels)
            self.policy_out = _over_width(policy.out, self.shape.cells)
        else:
            self.policy_out = _pointwise(policy.out, channels)
            if policy.others is None:
                # An empty layer, so that there is one kernel with and without such actions.
                self.policy_extra = Layer(np.zeros((0, channels), np.float32), np.zeros(0, np.float32))
            else:
                self.policy_extra = _pointwise(policy.others, channels)
        self.value_narrow = _pointwise(value.narrow.conv, channels)
        hidden = _over_width(value.hidden, self.shape.cells)
        self.value_hidden = Layer(np.ascontiguousarray(hidden.weight.T), hidden.bias)
        self.value_out = _layer(Affine.of(value.out))


def first_layer(layer: Affine, shape: PlaneShape) -> FirstLayer:
    """The first convolution `[channels, planes, 3, 3]`, arranged for bits."""
    weight, channels = layer.weight, layer.weight.shape[0]
    # The nine taps of a cell begin up and left of it: on a board with a margin, at its own row and column.
    row, col = np.divmod(np.arange(shape.cells, dtype=np.uint64), np.uint64(shape.cols))
    by_row, by_col = _taps_inside(shape.rows), _taps_inside(shape.cols)
    edges = torch.einsum("cpkl,ik,jl->pijc", weight, by_row, by_col)
    # Flipped: a bit gives its neighbours what a convolution would let them take from it.
    taps = weight.flip(2, 3).permute(1, 2, 3, 0).reshape(shape.planes, 3, -1)
    return FirstLayer(
        masks=shape.masks(),
        corners=(row * np.uint64(shape.cols + 2) + col) * np.uint64(channels),
        taps=taps.contiguous().numpy(),
        edges=edges.flatten(1).contiguous().numpy(),
        bias=layer.bias.numpy(),
    )


def _taps_inside(lines: int) -> Tensor:
    """`[3, 3]`: 1 for the taps that lie on the board, on the first, an inner or the last of `lines` lines."""
    inside = torch.tensor([[0.0, 1.0, 1.0], [1.0, 1.0, 1.0], [1.0, 1.0, 0.0]])
    if lines == 1:  # the first line is also the last one
        inside[0, 2] = 0
    return inside


def _up(channels: int) -> int:
    return -(-channels // LANES) * LANES


def _widen(layer: Affine, outputs: int, inputs: int) -> Affine:
    """Pad a layer with zeros for channels that are only padding: they are 0 and nothing reads them."""
    weight = torch.zeros((outputs, inputs, *layer.weight.shape[2:]))
    weight[: layer.weight.shape[0], : layer.weight.shape[1]] = layer.weight
    bias = torch.zeros(outputs)
    bias[: layer.bias.shape[0]] = layer.bias
    return Affine(weight, bias)


def _layer(layer: Affine) -> Layer:
    return Layer(layer.weight.contiguous().numpy(), layer.bias.numpy())


def _pointwise(layer: nn.Conv2d | nn.Linear, channels: int) -> Layer:
    """A 1x1 convolution, or a linear layer over the means of channels: `[outputs, channels]`."""
    narrow = Affine.of(layer)
    wide = _widen(narrow, narrow.bias.shape[0], channels)
    return _layer(Affine(wide.weight.flatten(1), wide.bias))


def _over_width(linear: nn.Linear, cells: int) -> Layer:
    """A linear layer over `[planes, cells]`, padded with zeros for cells that are only padding."""
    layer = Affine.of(linear)
    outputs = layer.weight.shape[0]
    weight = torch.zeros((outputs, layer.weight.shape[1] // cells, _up(cells)))
    weight[:, :, :cells] = layer.weight.view(outputs, -1, cells)
    return _layer(Affine(weight.flatten(1), layer.bias))
