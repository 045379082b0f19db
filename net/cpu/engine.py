"""How a network answers batches on a CPU. Read this file first about `net/cpu/`.

The usual way to run a network on many cores splits every layer over all cores, and waits for the slowest core
after each layer. On boards of 42 to 361 cells this is slow, and slower still when other processes use the
cores too. Here the threads share only a list of chunks of positions: a thread takes a chunk, carries it
through the whole network, and takes the next. The activations of a chunk stay in its core's own cache.

The path of a batch:

 1. `CpuEngine.start` cuts it into chunks of at most 64 positions (`cut`), and each of the engine's threads
    begins to drain the list. `finish` waits for all of them, so the caller goes on meanwhile.
 2. For each chunk, the thread runs its own forward (`CpuForward`):
    a. *Bits to the first layer* (`kernels.start_block`): each set bit adds its nine taps. A chess position
       sets about one cell in thirty, so this is a tenth of the work of the dense form. No planes are made.
    b. *The tower*: 3x3 convolutions (`net.cpu.convolutions`), either by Winograd's method in loops of our own
       (`net.cpu.winograd`) or by oneDNN through torch. Which one follows from shape and number format alone.
       Squeeze-and-excitation (`kernels.squeeze_excite_add`) is a loop as well.
    c. *Heads* (`kernels.plane_priors`, `flat_priors`, `win_draw_loss`): only the logits of legal actions are
       computed, and their softmax.
 3. The number format is float32 or bfloat16 (`faster_dtype`): the processor's features decide.

A network of another family (`transformer`) runs as its torch module (`net.torch_engine.ModuleForward`); so
does a tower if this torch lacks the operations of oneDNN that we call. A sparse network is one call of its
own kernel (`net.sparse_kernel`) for each chunk, always in float32.

A guarantee: the same batch has the same answers with the same number of threads. Nothing is chosen by
measuring, because a measurement may go either way on a busy machine, and the same network must answer the
same in every run. The last bits of an answer may depend on how many rows its chunk has, because oneDNN then
adds in another order; so chunks have few sizes (`rounded_up`).

`CpuWeights` lays out the weights for the loops, and pads the channels with zeros to a multiple of LANES.
Weights are shared by all threads; scratch memory belongs to the forward, so each thread has its own.

The files: `engine` has the threads, the chunks, what runs one chunk, and the weights for it; `kernels` has
the loops; `convolutions` chooses a method and has the weights of both; `winograd` has the loops of Winograd's
method, with vector instructions. docs/decisions/0063 has the measurements.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache, partial
from queue import SimpleQueue
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from azselfplay.games.jit import bind
from azselfplay.games.spec import Game
from net.architectures.network import BoardNetwork, ConvNorm, FlatPolicyHead, Network
from net.architectures.residual import ResidualBlock, ResidualNetwork, SqueezeExcitation
from net.architectures.sparse import SparseNetwork
from net.cpu import kernels as cpu_kernels
from net.cpu.convolutions import Affine, ConvShape, PackedConv, WinogradConv, packed_available, prepared
from net.cpu.kernels import LANES, FirstLayer, Layer, as_numpy, load, load_bf16, same_f32, store, store_bf16
from net.planes import PlaneShape, features_tensor
from net.sparse import as_vector, kernels_for
from net.torch_engine import NO_ACTION, ModuleForward
from protocol.frames import LeafBatch

F32 = npt.NDArray[np.float32]
Forward = Callable[[LeafBatch, int, F32, F32], None]
"""A network on one core, called as `CpuForward` is."""
STEP = 4
"""Chunks are run as 1, 2 or a multiple of STEP rows, because oneDNN prepares code for each number of rows."""
LARGEST_CHUNK = 64
BF16_INSTRUCTIONS = ("avx512_bf16", "amx_bf16", "bf16", "sve_bf16")
CACHE_BYTES = 512 << 10
"""Activations of one layer of a chunk should fit into a core's own cache."""


class CpuEngine:
    """See `net.inference.Engine`. It computes in threads of its own, so the caller may continue until
    `finish`."""

    may_overflow = False

    def __init__(
        self, network: Network, game: Game, history: int, dtype: torch.dtype, *, threads: int
    ) -> None:
        self.name, self._chunk = f"{threads} x sparse float32", LARGEST_CHUNK
        self._game, self._history, self._dtype, self._threads = game, history, dtype, threads
        self._own_kernels = packed_available(dtype)
        if isinstance(network, BoardNetwork):
            self.name = f"{threads} x oneDNN {str(dtype).removeprefix('torch.')}"
            row_bytes = game.cells * network.architecture.channels * dtype.itemsize
            # A multiple of STEP, so that all chunks but a batch's last one need no padding.
            self._chunk = max(STEP, min(LARGEST_CHUNK, CACHE_BYTES // row_bytes // STEP * STEP))

        def prepare() -> None:  # both settings hold only for the thread that makes them
            torch.set_num_threads(1)
            torch.set_flush_denormal(True)

        self._pool = ThreadPoolExecutor(threads, "net", prepare)
        self._in_flight: dict[int, tuple[F32, F32, list[Future[None]]]] = {}
        """By slot: priors `[sum of counts]`, wdl `[rows, 3]`, and the threads that write them."""
        self.set_weights(network)

    def set_weights(self, network: Network) -> None:
        # In a computing thread, because the libraries' choices depend on the thread's settings.
        forwards = self._pool.submit(self._make_forwards, network).result()
        self._forwards: SimpleQueue[Forward] = SimpleQueue()
        for forward in forwards:  # one for each thread, so that `get` never waits
            self._forwards.put(forward)

    def _make_forwards(self, network: Network) -> Sequence[Forward]:
        """Return a forward for each thread. They share the weights, which are laid out once."""
        shape, chunk, threads = (self._game, self._history), self._chunk, self._threads
        if isinstance(network, SparseNetwork):
            tensors = {name: tensor.numpy() for name, tensor in network.state_dict().items()}
            weights = as_vector(tensors, self._game, network.architecture)
            kernels = kernels_for(self._game.name, network.architecture.widths)
            return [partial(run_sparse, kernels, weights, self._history)] * threads
        if self._own_kernels and isinstance(network, ResidualNetwork):
            laid_out = CpuWeights(network, *shape, self._dtype, chunk)
            return [CpuForward(laid_out, chunk) for _ in range(threads)]
        return [partial(run_module, ModuleForward(network, *shape, "cpu", self._dtype))] * threads

    def start(self, batch: LeafBatch, slot: int) -> None:
        priors, wdl = np.empty(len(batch.actions), np.float32), np.empty((batch.rows, 3), np.float32)
        ends = np.concatenate([[0], np.cumsum(batch.counts, dtype=np.int64)])
        # One task for each thread, not for each chunk: a thread that is free takes the next chunk.
        pieces = cut(batch.rows, self._chunk, self._threads)
        chunks = iter(pieces)

        @torch.inference_mode()
        def drain() -> None:
            """Compute chunks until none is left; the other threads take from the same iterator."""
            forward = self._forwards.get()
            try:
                for start, stop in chunks:
                    first, last = int(ends[start]), int(ends[stop])
                    actions = batch.actions[first:last]
                    part = LeafBatch(batch.features[start:stop], batch.counts[start:stop], actions)
                    forward(part, rounded_up(stop - start), priors[first:last], wdl[start:stop])
            finally:
                self._forwards.put(forward)

        futures = [self._pool.submit(drain) for _ in range(min(self._threads, len(pieces)))]
        self._in_flight[slot] = priors, wdl, futures

    def finish(self, slot: int) -> tuple[F32, F32]:
        priors, wdl, futures = self._in_flight.pop(slot)
        for future in futures:
            future.result()  # raises what its thread raised
        return priors, wdl

    def close(self) -> None:
        self._pool.shutdown()


def cut(rows: int, most: int, threads: int) -> list[tuple[int, int]]:
    """Split `rows` rows into chunks of at most `most` rows (a multiple of STEP), as even as whole steps
    allow.

    If there are enough rows, the number of chunks is a multiple of `threads`.
    """
    if rows == 0:
        return []
    steps = -(-rows // STEP)
    pieces = -(-steps // (most // STEP))
    pieces = min(steps, -(-pieces // threads) * threads)
    bounds = [min(rows, STEP * (steps * k // pieces)) for k in range(pieces + 1)]
    return list(itertools.pairwise(bounds))


def rounded_up(rows: int) -> int:
    """Return how many rows a chunk of `rows` rows is run as."""
    return rows if rows <= 2 else -(-rows // STEP) * STEP


def faster_dtype() -> torch.dtype:
    """Return bfloat16 on a CPU whose instructions for it are faster than those for float32 (about twice),
    else float32.

    The CPU's features decide, not a measurement, for the reason at the top of this file.
    """
    found = getattr(torch.cpu, "get_capabilities", dict[str, object])()
    return torch.bfloat16 if multiplies_bfloat16_faster(found) and bfloat16_allowed() else torch.float32


def multiplies_bfloat16_faster(found: Mapping[str, object]) -> bool:
    """Return whether a CPU with the capabilities `found` (`torch.cpu.get_capabilities`) multiplies bfloat16
    faster than float32.

    Intel's cores have one unit for AVX-512's bfloat16 and two for float32: without AMX, which a virtual
    machine may hide, bfloat16 takes 1.2 to 1.6 times as long (bench/RESULTS.md).
    """
    if str(found.get("cpu_name", "")).startswith("Intel"):
        return bool(found.get("amx_bf16"))
    return any(found.get(name) for name in BF16_INSTRUCTIONS)


def bfloat16_allowed() -> bool:
    """Return whether oneDNN uses bfloat16 here: `ONEDNN_MAX_CPU_ISA` may forbid what the CPU has."""
    return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


# ---- One chunk -------------------------------------------------------------------------------------


@cache
def kernels(dtype: torch.dtype) -> SimpleNamespace:
    """Return the compiled loops for float32 or bfloat16 activations."""
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

    def __call__(self, batch: LeafBatch, bucket: int, priors: F32, wdl: F32) -> None:
        """Answer `batch` into `priors [sum of counts]` and `wdl [rows, 3]`, run as `bucket` rows."""
        net, shape, run = self._weights, self._weights.shape, self._kernels
        bits, scalars = shape.binary_words(batch.features), shape.scalar_values(batch.features)
        start = self._start[:bucket]
        run.start_block(bits, scalars, net.start, self._board, self._base, as_numpy(start)[: batch.rows])
        x = start.permute(0, 3, 1, 2)
        for (first, second), squeeze in zip(net.blocks, net.squeezes, strict=True):
            hidden = first.relu(x)
            if squeeze is None:  # the addition and ReLU are part of the convolution
                second.add_relu_into(x, hidden)
            else:
                run.squeeze_excite_add(self._numbers(second(hidden)), self._numbers(x), *squeeze)
        legal = batch.counts, batch.actions, priors
        if net.policy_conv is None:
            run.flat_priors(self._numbers(x), net.policy_narrow, net.policy_out, *legal)
        else:
            hidden = net.policy_conv.relu(x)
            run.plane_priors(self._numbers(hidden), net.policy_out, net.policy_extra, *legal)
        run.win_draw_loss(self._numbers(x), net.value_narrow, net.value_hidden, net.value_out, wdl)

    def _numbers(self, x: Tensor) -> npt.NDArray[Any]:
        """Return a channels-last tensor as `[n, cells, channels]`, sharing its memory."""
        array = as_numpy(x.permute(0, 2, 3, 1))
        return array.reshape(x.shape[0], -1, self._weights.channels)


def run_module(module: ModuleForward, batch: LeafBatch, bucket: int, priors: F32, wdl: F32) -> None:
    """See `Forward`; through the network's torch module, which threads may share."""
    words = np.zeros((bucket, module.feature_words), np.uint64)
    words[: batch.rows] = batch.features
    legal = np.full((bucket, module.max_legal), NO_ACTION)
    in_use = np.arange(module.max_legal) < batch.counts[:, np.newaxis]
    legal[: batch.rows][in_use] = batch.actions
    shares, outcomes = module(features_tensor(words), torch.from_numpy(legal))
    priors[:] = shares.numpy()[: batch.rows][in_use]
    wdl[:] = outcomes.numpy()[: batch.rows]


def run_sparse(
    kernels: Any, weights: F32, history: int, batch: LeafBatch, _bucket: int, priors: F32, wdl: F32
) -> None:
    """See `Forward`; through the kernels of a sparse network."""
    kernels.evaluate_all(weights, batch.features, history, batch.counts, batch.actions, priors, wdl)


# ---- Weights ---------------------------------------------------------------------------------------


class SqueezeWeights(NamedTuple):
    """Squeeze-and-excitation of one block, in the format of `squeeze_excite_add`."""

    squeeze: F32
    squeeze_bias: F32
    excite: F32
    excite_bias: F32

    @staticmethod
    def of(layers: SqueezeExcitation, channels: int) -> SqueezeWeights:
        squeeze, excite = Affine.of(layers.squeeze), Affine.of(layers.excite)
        hidden, old = squeeze.weight.shape
        scale = _widen(Affine(excite.weight[:old], excite.bias[:old]), channels, hidden)
        shift = _widen(Affine(excite.weight[old:], excite.bias[old:]), channels, hidden)
        return SqueezeWeights(
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

        def conv(layer: ConvNorm) -> WinogradConv | PackedConv:
            return prepared(_widen(Affine.of(layer.conv), channels, channels), conv_shape)

        start = _widen(Affine.of(network.start.conv), channels, self.shape.planes)
        self.start = first_layer(start, self.shape)
        blocks = [block for block in network.blocks if isinstance(block, ResidualBlock)]
        self.blocks = [(conv(block.first), conv(block.second)) for block in blocks]
        self.squeezes = [
            None if block.se is None else SqueezeWeights.of(block.se, channels) for block in blocks
        ]
        policy, value = network.policy, network.value
        self.policy_conv = None if isinstance(policy, FlatPolicyHead) else conv(policy.hidden)
        if isinstance(policy, FlatPolicyHead):
            self.policy_narrow = _pointwise(policy.hidden.conv, channels)
            self.policy_out = _over_width(policy.out, self.shape.cells)
        else:
            self.policy_out = _pointwise(policy.out, channels)
            if policy.others is None:
                # An empty layer, so that one kernel serves games with and without extra actions.
                self.policy_extra = Layer(np.zeros((0, channels), np.float32), np.zeros(0, np.float32))
            else:
                self.policy_extra = _pointwise(policy.others, channels)
        self.value_narrow = _pointwise(value.narrow.conv, channels)
        hidden = _over_width(value.hidden, self.shape.cells)
        self.value_hidden = Layer(np.ascontiguousarray(hidden.weight.T), hidden.bias)
        self.value_out = _layer(Affine.of(value.out))


def first_layer(layer: Affine, shape: PlaneShape) -> FirstLayer:
    """Return the first convolution `[channels, planes, 3, 3]`, arranged for bits."""
    weight, channels = layer.weight, layer.weight.shape[0]
    # The nine taps of a cell begin up and left of it. On a board with a margin, that place has the cell's own
    # row and column.
    row, col = np.divmod(np.arange(shape.cells, dtype=np.uint64), np.uint64(shape.cols))
    by_row, by_col = _taps_inside(shape.rows), _taps_inside(shape.cols)
    edges = torch.einsum("cpkl,ik,jl->pijc", weight, by_row, by_col)
    # Flipped: a bit adds to its neighbours what they would read from it in a convolution.
    taps = weight.flip(2, 3).permute(1, 2, 3, 0).reshape(shape.planes, 3, -1)
    return FirstLayer(
        masks=shape.masks(),
        corners=(row * np.uint64(shape.cols + 2) + col) * np.uint64(channels),
        taps=taps.contiguous().numpy(),
        edges=edges.flatten(1).contiguous().numpy(),
        bias=layer.bias.numpy(),
    )


def _taps_inside(lines: int) -> Tensor:
    """Return `[3, 3]`: for the first, an inner and the last of `lines` lines, 1 for each tap on the board."""
    inside = torch.tensor([[0.0, 1.0, 1.0], [1.0, 1.0, 1.0], [1.0, 1.0, 0.0]])
    if lines == 1:  # the first line is also the last one
        inside[0, 2] = 0
    return inside


def _up(channels: int) -> int:
    return -(-channels // LANES) * LANES


def _widen(layer: Affine, outputs: int, inputs: int) -> Affine:
    """Pad a layer with zeros for channels that are only padding: these are 0, and nothing reads them."""
    weight = torch.zeros((outputs, inputs, *layer.weight.shape[2:]))
    weight[: layer.weight.shape[0], : layer.weight.shape[1]] = layer.weight
    bias = torch.zeros(outputs)
    bias[: layer.bias.shape[0]] = layer.bias
    return Affine(weight, bias)


def _layer(layer: Affine) -> Layer:
    return Layer(layer.weight.contiguous().numpy(), layer.bias.numpy())


def _pointwise(layer: nn.Conv2d | nn.Linear, channels: int) -> Layer:
    """Return a 1x1 convolution, or a linear layer over the means of channels, as `[outputs, channels]`."""
    narrow = Affine.of(layer)
    wide = _widen(narrow, narrow.bias.shape[0], channels)
    return _layer(Affine(wide.weight.flatten(1), wide.bias))


def _over_width(linear: nn.Linear, cells: int) -> Layer:
    """Return a linear layer over `[planes, cells]`, with zeros for cells that are only padding."""
    layer = Affine.of(linear)
    outputs = layer.weight.shape[0]
    weight = torch.zeros((outputs, layer.weight.shape[1] // cells, _up(cells)))
    weight[:, :, :cells] = layer.weight.view(outputs, -1, cells)
    return _layer(Affine(weight.flatten(1), layer.bias))
