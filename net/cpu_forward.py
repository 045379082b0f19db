"""The folded network on one CPU core: jitted first layer, squeeze-excitation and priors, oneDNN between.

The weights are shared by all threads; scratch memory belongs to a `CpuForward`, so each thread has its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F  # noqa: N812 - everybody calls it so
from torch import Tensor

from games.jit import specialise
from games.spec import Game
from net import cpu_kernels
from net.batches import Batch
from net.folding import Affine, FoldedNetwork
from net.number_formats import load_bf16, same_f32, store_bf16
from net.packed_convs import Conv, PackedConv, PlainConv, packed_available
from net.planes import PlaneShape
from net.torch_forward import wdl_of

F32 = npt.NDArray[np.float32]
Kernels = dict[str, Callable[..., Any]]
_KERNELS: dict[torch.dtype, Kernels] = {}


def kernels(dtype: torch.dtype) -> Kernels:
    """The compiled loops for float32 or bfloat16 activations."""
    if dtype not in _KERNELS:
        bf16 = dtype == torch.bfloat16
        formats = {"load": load_bf16 if bf16 else same_f32, "store": store_bf16 if bf16 else same_f32}
        plain = {function.__name__: function for function in cpu_kernels.KERNELS}
        _KERNELS[dtype] = specialise(plain, formats, "bf16" if bf16 else "f32")
    return _KERNELS[dtype]


@dataclass(frozen=True)
class Gate:
    """Squeeze-and-excitation of one block, as `squeeze_excite_add` takes it."""

    squeeze: F32
    squeeze_bias: F32
    excite: F32
    excite_bias: F32


class CpuWeights:
    """A folded network laid out for the CPU. `rows` is the number of positions run at once."""

    def __init__(
        self, folded: FoldedNetwork, game: Game, history: int, dtype: torch.dtype, rows: int
    ) -> None:
        self.dtype = dtype
        self.shape = PlaneShape.of(game, history)
        self.channels = _up(folded.architecture.channels)
        self.flat_policy = folded.flat_policy
        packed = packed_available(dtype)

        def conv(layer: Affine) -> Conv:
            wide = _widen(layer, self.channels, self.channels)
            if packed:
                return PackedConv(wide, dtype, game.rows, game.cols, rows)
            return PlainConv(wide, dtype)

        start = _widen(folded.start, self.channels, self.shape.planes)
        self.taps, self.edges = _taps(start.weight), _edges(start.weight)
        self.masks = self.shape.masks()
        self.corners = _corners(game.rows, game.cols, self.channels)
        self.start_bias = start.bias.numpy()
        self.blocks = [(conv(block.first), conv(block.second)) for block in folded.blocks]
        self.gates = [_gate(block.squeeze, block.excite, self.channels) for block in folded.blocks]
        self.policy_conv = None if folded.flat_policy else conv(folded.policy_hidden)
        self._policy(folded)
        self.value_narrow = _pointwise(folded.value_narrow, self.channels, dtype)
        self.value_hidden = _by_cells(folded.value_hidden, self.shape.cells, dtype)
        self.value_out = folded.value_out

    def _policy(self, folded: FoldedNetwork) -> None:
        if folded.flat_policy:
            self.policy_narrow = _pointwise(folded.policy_hidden, self.channels, self.dtype)
            self.policy_flat = _by_cells(folded.policy_out, self.shape.cells, self.dtype)
        else:
            planes = folded.policy_out.bias.shape[0]
            wide = _widen(folded.policy_out, planes, self.channels)
            self.policy_planes = wide.weight.reshape(planes, self.channels).contiguous().numpy()
            self.policy_bias = wide.bias.numpy()


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
                self._kernels["squeeze_excite_add"](
                    self._numbers(y), self._numbers(x), gate.squeeze, gate.squeeze_bias,
                    gate.excite, gate.excite_bias,
                )  # fmt: skip
        cells = _cells_last(x)
        self._priors(x, cells, batch, priors)
        flat = F.relu_(F.linear(cells, net.value_narrow.weight, net.value_narrow.bias)).view(bucket, -1)
        wide = F.relu_(F.linear(flat, net.value_hidden.weight, net.value_hidden.bias)).float()
        wdl[:] = wdl_of(F.linear(wide, net.value_out.weight, net.value_out.bias)).numpy()[: batch.rows]

    def _first_layer(self, batch: Batch, bucket: int) -> Tensor:
        net, shape = self._weights, self._weights.shape
        out = self._start[:bucket]
        scalars = batch.features[:, shape.words - shape.scalar_planes :].astype(np.uint32).view(np.float32)
        self._kernels["start_block"](
            batch.features, scalars, net.masks, net.corners, net.taps, net.edges, net.start_bias,
            self._board, self._base, _as_numpy(out)[: batch.rows],
        )  # fmt: skip
        return out.permute(0, 3, 1, 2)

    def _priors(self, x: Tensor, cells: Tensor, batch: Batch, priors: F32) -> None:
        net = self._weights
        if net.policy_conv is not None:
            self._kernels["plane_priors"](
                self._numbers(net.policy_conv.relu(x)), net.policy_planes, net.policy_bias,
                batch.counts, batch.actions, priors,
            )  # fmt: skip
            return
        narrow = F.relu_(F.linear(cells, net.policy_narrow.weight, net.policy_narrow.bias))
        flat = narrow.view(x.shape[0], -1)
        logits = F.linear(flat, net.policy_flat.weight, net.policy_flat.bias).float().numpy()
        self._kernels["flat_priors"](logits, batch.counts, batch.actions, priors)

    def _numbers(self, x: Tensor) -> npt.NDArray[Any]:
        """`[n, cells, channels]` of a channels-last tensor, sharing its memory."""
        array = _as_numpy(x.permute(0, 2, 3, 1))
        return array.reshape(x.shape[0], -1, self._weights.channels)


def _as_numpy(x: Tensor) -> npt.NDArray[Any]:
    return x.view(torch.uint16).numpy() if x.dtype == torch.bfloat16 else x.numpy()


def _cells_last(x: Tensor) -> Tensor:
    """`[n * cells, channels]` of a channels-last tensor, sharing its memory."""
    return x.permute(0, 2, 3, 1).reshape(-1, x.shape[1])


def _up(channels: int) -> int:
    return -(-channels // cpu_kernels.LANES) * cpu_kernels.LANES


def _widen(layer: Affine, outputs: int, inputs: int) -> Affine:
    """Zeros for channels that only fill up: they answer 0 and nobody listens to them."""
    weight = torch.zeros((outputs, inputs, *layer.weight.shape[2:]))
    weight[: layer.weight.shape[0], : layer.weight.shape[1]] = layer.weight
    bias = torch.zeros(outputs)
    bias[: layer.bias.shape[0]] = layer.bias
    return Affine(weight, bias)


def _taps(weight: Tensor) -> F32:
    """`[planes, 3, 3 * channels]`: what a bit adds to the outputs around it, row by row."""
    turned = weight.flip(2, 3).permute(1, 2, 3, 0)
    return turned.reshape(weight.shape[1], 3, -1).contiguous().numpy()


def _edges(weight: Tensor) -> F32:
    """`[planes, 9 * channels]`: the answer to a plane of ones on a first, inner or last row and column."""
    inside = torch.tensor([[0.0, 1.0, 1.0], [1.0, 1.0, 1.0], [1.0, 1.0, 0.0]])
    return torch.einsum("cpkl,ik,jl->pijc", weight, inside, inside).flatten(1).contiguous().numpy()


def _corners(rows: int, cols: int, channels: int) -> npt.NDArray[np.uint64]:
    """Where, on a board with a border of one cell, the three lines of taps of each cell begin."""
    row, col = np.divmod(np.arange(rows * cols, dtype=np.uint64), np.uint64(cols))
    return (row * np.uint64(cols + 2) + col) * np.uint64(channels)


def _gate(squeeze: Affine | None, excite: Affine | None, channels: int) -> Gate | None:
    if squeeze is None or excite is None:
        return None
    hidden, old = squeeze.weight.shape
    scale = _widen(Affine(excite.weight[:old], excite.bias[:old]), channels, hidden)
    shift = _widen(Affine(excite.weight[old:], excite.bias[old:]), channels, hidden)
    return Gate(
        _widen(squeeze, hidden, channels).weight.T.contiguous().numpy(),
        squeeze.bias.numpy(),
        torch.cat([scale.weight, shift.weight]).T.contiguous().numpy(),
        torch.cat([scale.bias, shift.bias]).numpy(),
    )


def _pointwise(layer: Affine, channels: int, dtype: torch.dtype) -> Affine:
    """A 1x1 convolution as a linear layer over channels."""
    wide = _widen(layer, layer.bias.shape[0], channels)
    return Affine(wide.weight.flatten(1).to(dtype).contiguous(), wide.bias.to(dtype))


def _by_cells(layer: Affine, cells: int, dtype: torch.dtype) -> Affine:
    """A linear layer over `[channels, cells]`, for input that comes as `[cells, channels]`."""
    outputs = layer.weight.shape[0]
    weight = layer.weight.view(outputs, -1, cells).transpose(1, 2).reshape(outputs, -1)
    return Affine(weight.to(dtype).contiguous(), layer.bias.to(dtype))
