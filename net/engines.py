"""What computes a batch, and how one is chosen for a device."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch

from games.spec import Game
from net.batches import Batch
from net.folding import FoldedNetwork
from net.torch_engine import TorchEngine


class Engine(Protocol):
    """A folded network ready to run on one device, with a fixed number of batches in flight."""

    name: str

    def set_weights(self, folded: FoldedNetwork) -> None:
        """New weights of the same architecture; only while nothing is in flight."""

    def start(self, batch: Batch, bucket: int, slot: int) -> None:
        """Begin `batch`, padded to `bucket` rows, in a free slot."""

    def finish(self, batch: Batch, slot: int) -> tuple[npt.NDArray[np.float16], npt.NDArray[np.float32]]:
        """Wait for the slot and return priors `[sum of counts]` and wdl `[rows, 3]`, both copies."""


def cuda_dtype(device: str) -> torch.dtype:
    """bfloat16 from Ampere on, float16 on Volta and Turing, float32 before them."""
    major, _minor = torch.cuda.get_device_capability(device)
    if major >= 8:
        return torch.bfloat16
    return torch.float16 if major == 7 else torch.float32


def cuda_engine(
    folded: FoldedNetwork, game: Game, history: int, device: str, rows: int, in_flight: int
) -> Engine:
    torch.backends.cudnn.benchmark = True
    dtype = cuda_dtype(device)
    return TorchEngine(folded, game, history, device, dtype, rows=rows, in_flight=in_flight)


def cpu_engine(folded: FoldedNetwork, game: Game, history: int, rows: int, in_flight: int) -> Engine:
    return TorchEngine(folded, game, history, "cpu", torch.bfloat16, rows=rows, in_flight=in_flight)
