"""The interface of what computes a batch, and the choice for a device."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch

from games.spec import Game
from net.architectures.network import Network
from net.architectures.sparse import SparseNetwork
from net.batches import Batch
from net.cpu_engine import CpuEngine, faster_dtype
from net.sparse_engine import SparseEngine, SparseTorchEngine
from net.torch_engine import TorchEngine


class Engine(Protocol):
    """A folded network ready to run on one device, with a fixed number of batches in flight."""

    name: str

    def set_weights(self, network: Any) -> None:
        """Set new weights of the same architecture; only while nothing is in flight."""

    def start(self, batch: Batch, slot: int) -> None:
        """Begin `batch` in a free slot. Its arrays must not change until `finish`."""

    def finish(self, slot: int) -> tuple[npt.NDArray[Any], npt.NDArray[np.float32]]:
        """Wait for the slot and return priors `[sum of counts]`, float16 or float32, and wdl `[rows, 3]`."""

    def close(self) -> None:
        """Release threads and memory."""


def make_engine(
    network: Network,
    game: Game,
    history: int,
    device: str,
    *,
    threads: int,
    buckets: tuple[int, ...],
    in_flight: int,
) -> Engine:
    """The engine for a device: jitted loops and oneDNN on a CPU, CUDA graphs on a GPU."""
    if isinstance(network, SparseNetwork):
        if torch.device(device).type == "cpu":
            return SparseEngine(network, game, history, threads=threads)
        return SparseTorchEngine(network, device)
    if torch.device(device).type == "cpu":
        return CpuEngine(network, game, history, faster_dtype(), threads=threads)
    torch.backends.cudnn.benchmark = True
    dtype = cuda_dtype(device)
    return TorchEngine(network, game, history, device, dtype, buckets=buckets, in_flight=in_flight)


def cuda_dtype(device: str) -> torch.dtype:
    """bfloat16 from Ampere on, float16 on Volta and Turing, float32 before them."""
    major, _minor = torch.cuda.get_device_capability(device)
    if major >= 8:
        return torch.bfloat16
    return torch.float16 if major == 7 else torch.float32
