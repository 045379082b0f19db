"""A network of any family on one CPU core, run only with numbers of rows whose answers agree to the last bit.

Which those are depends on the shapes of the layers, the number format and the processor, not on the weights.
So it is tried out once on a machine, with made-up weights that make every number of every layer matter.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from games.spec import Game
from net.agreeing_sizes import Positions, agreeing_sizes
from net.architectures.network import Network
from net.architectures.registry import build
from net.batches import Batch
from net.folding import fold
from net.module_forward import NO_ACTION, ModuleForward
from net.planes import PlaneShape, words_tensor
from net.ragged import compact, spread
from net.sizes_on_disk import remembered
from net.slots import Buffers

F32 = npt.NDArray[np.float32]

STEP = 8
"""Sizes are multiples of this, or 1, 2 or 4."""
TRIED = 64
"""Positions that are tried at each size: differences in the last bit show in some numbers of some only."""


class ModuleOnCpu:
    """Runs up to `rows` positions at once in the calling thread. Weights are shared, memory is its own."""

    def __init__(self, forward: ModuleForward, game: Game, history: int, rows: int) -> None:
        self._forward = forward
        words = game.feature_words(history)
        self._memory = Buffers.make(rows, words, game.max_legal, torch.device("cpu"), pinned=False)

    def __call__(self, batch: Batch, bucket: int, priors: F32, wdl: F32) -> None:
        """Answer `batch` into `priors [sum of counts]` and `wdl [rows, 3]`, run as `bucket` rows."""
        memory = self._memory
        memory.words.numpy().view(np.uint64)[: batch.rows] = batch.features
        spread(batch.actions, batch.counts, NO_ACTION, memory.legal.numpy())
        found, chances = self._forward(memory.words[:bucket], memory.legal[:bucket])
        halves = np.empty(priors.shape, np.float16)
        compact(found.numpy().view(np.uint16), batch.counts, halves.view(np.uint16))
        priors[:] = halves
        wdl[:] = chances.numpy()[: batch.rows]


def module_sizes(
    network: Network, game: Game, history: int, dtype: torch.dtype, rows: int
) -> tuple[int, ...]:
    """Numbers of rows, at most `rows`, that give the same bits. To be called in a thread that computes."""
    sizes = candidates(rows)
    shape = PlaneShape.of(game, history)
    about = f"{network.architecture.family} {network.architecture.played.to_json()} {shape} "
    about += f"{game.actions} {game.policy_planes} {game.max_legal} {dtype}"
    return remembered(about, sizes, lambda: try_sizes(network, game, history, dtype, sizes))


def candidates(rows: int) -> tuple[int, ...]:
    """1, 2, 4, and multiples of STEP up to `rows`."""
    return (*(size for size in (1, 2, 4) if size <= rows), *range(STEP, rows + 1, STEP))


@torch.inference_mode()
def try_sizes(
    network: Network, game: Game, history: int, dtype: torch.dtype, sizes: Sequence[int]
) -> tuple[int, ...]:
    """The same, by computing. All blocks have one shape, so a network of one is enough."""
    forward = ModuleForward(made_up(network, game, history), game, history, "cpu", dtype)
    layers: list[Tensor] = []
    for layer in forward.module.modules():
        if not list(layer.children()):
            layer.register_forward_hook(lambda _, inputs, output: layers.append(output) if inputs else None)
    positions = max(TRIED, *sizes)
    words = _made_up_words(PlaneShape.of(game, history), positions)
    legal = torch.arange(min(game.max_legal, game.actions), dtype=torch.int32).expand(positions, -1)

    def compute(numbers: Positions) -> list[bytes]:
        layers.clear()
        at = torch.from_numpy(numbers)
        found = [*forward(words[at], legal[at]), *layers]
        rows = [one.reshape(len(numbers), -1).contiguous().view(torch.uint8).numpy() for one in found]
        return [b"".join(part.tobytes() for part in parts) for parts in zip(*rows, strict=True)]

    return agreeing_sizes(sizes, positions, compute, tried=TRIED)


@torch.no_grad()
def made_up(network: Network, game: Game, history: int) -> Network:
    """A folded network of one such block whose weights are drawn at random, always the same."""
    one = dataclasses.replace(network.architecture.played, blocks=1)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        folded = fold(build(one, game, history))
        for parameter in folded.parameters():
            nn.init.normal_(parameter, std=parameter[0].numel() ** -0.5)
    return folded


def _made_up_words(shape: PlaneShape, positions: int) -> Tensor:
    """`int64[positions, words]`: one cell in four is set, scalars are 1."""
    rng = np.random.default_rng(0)
    bits = shape.bit_planes * shape.words_per_plane
    words = rng.integers(0, 2**64, (positions, shape.words), np.uint64)
    words &= rng.integers(0, 2**64, (positions, shape.words), np.uint64)
    words[:, bits:] = np.float32(1).view(np.uint32)
    return words_tensor(words)
