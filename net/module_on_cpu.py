"""A network of any family on one CPU core, run only with numbers of rows whose answers agree to the last bit.

These depend on the shapes of the layers, the number format and the processor, not on the weights. So they are
determined once on a machine, with made-up weights for which every number of every layer matters.
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
from net.architectures.heads import wdl_of
from net.architectures.network import Network
from net.architectures.registry import build
from net.architectures.sizes import BoardArchitecture
from net.batches import Batch
from net.folding import fold
from net.module_forward import placed
from net.number_formats import as_numpy
from net.plane_kernels import legal_priors, write_planes
from net.planes import PlaneShape
from net.sizes_on_disk import remembered

F32 = npt.NDArray[np.float32]

STEP = 8
"""Sizes are multiples of this, or 1, 2 or 4."""
TRIED = 64
"""Positions tried at each size: differences in the last bit show only in some numbers of some of them."""


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


def module_sizes(
    network: Network, game: Game, history: int, dtype: torch.dtype, rows: int
) -> tuple[int, ...]:
    """Numbers of rows, at most `rows`, that give the same bits. Must be called in a computing thread."""
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
    """The same, determined by computing. All blocks have the same shape, so a network with one is enough."""
    module = placed(made_up(network, game, history), "cpu", dtype)
    layers: list[Tensor] = []
    for layer in module.modules():
        if not list(layer.children()):
            layer.register_forward_hook(lambda _, inputs, output: layers.append(output) if inputs else None)
    positions = max(TRIED, *sizes)
    generator = torch.Generator().manual_seed(0)
    boards = (positions, game.rows, game.cols, game.planes(history))
    planes = torch.randint(0, 4, boards, generator=generator).eq(0).to(dtype)

    def compute(numbers: Positions) -> list[bytes]:
        layers.clear()
        logits, value_logits = module(planes[torch.from_numpy(numbers)].permute(0, 3, 1, 2))
        found = [logits, wdl_of(value_logits), *layers]
        rows = [one.reshape(len(numbers), -1).contiguous().view(torch.uint8).numpy() for one in found]
        return [b"".join(part.tobytes() for part in parts) for parts in zip(*rows, strict=True)]

    return agreeing_sizes(sizes, positions, compute, tried=TRIED)


@torch.no_grad()
def made_up(network: Network, game: Game, history: int) -> Network:
    """A folded network with one such block and random weights, always the same."""
    played = network.architecture.played
    assert isinstance(played, BoardArchitecture)
    one = dataclasses.replace(played, blocks=1)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        folded = fold(build(one, game, history))
        for parameter in folded.parameters():
            nn.init.normal_(parameter, std=parameter[0].numel() ** -0.5)
    return folded
