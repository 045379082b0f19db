"""What computes a batch: the interface `Engine`, the choice for a network and a device, and sparse networks.

Networks of planes have an engine for CPUs (`net.cpu.engine`) and one for CUDA (`net.torch_engine`). A sparse
network has both here, since they are short: on a CPU the kernels of `net.sparse_kernel` do it all; elsewhere
they only describe the positions, and the torch module computes. For play on a CPU neither is needed: there
the network is part of the search (`net.sparse`).
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch

from azselfplay.games.spec import Game
from net.architectures.network import Network
from net.architectures.sparse import SparseNetwork
from net.batches import Batch
from net.cpu.engine import CpuEngine, faster_dtype
from net.gpu import OnCuda, inference_dtype
from net.sparse import as_vector, kernels_for
from net.torch_engine import ModuleForward, TorchEngine


class Engine(Protocol):
    """A folded network ready to run on one device, with a fixed number of batches in flight."""

    name: str
    may_overflow: bool
    """Whether its numbers have the range of float16, which ends at 65,504."""

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
    on_cuda: OnCuda,
) -> Engine:
    """The engine for a device: jitted loops and oneDNN on a CPU, CUDA graphs on a GPU."""
    if isinstance(network, SparseNetwork):
        # Elsewhere the torch module computes, from features that are described on the CPU.
        if torch.device(device).type == "cpu":
            return SparseEngine(network, game, history, threads=threads)
        return SparseTorchEngine(network, device)
    if torch.device(device).type == "cpu":
        return CpuEngine(network, game, history, faster_dtype(), threads=threads)
    # Batches have a few fixed sizes, so trying out algorithms pays once for each.
    torch.backends.cudnn.benchmark = True
    dtype = on_cuda.dtype or inference_dtype(torch.cuda.get_device_capability(device))
    forward = ModuleForward(network, game, history, device, dtype, on_cuda.kernels)
    return TorchEngine(forward, buckets=buckets, in_flight=in_flight)


# ---- Sparse networks -------------------------------------------------------------------------------

Answers = tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]

LEAST_ROWS = 64
"""Rows for which it pays to wake a thread."""


class SparseEngine:
    """See `net.engines.Engine`; on the CPU."""

    may_overflow = False

    def __init__(self, network: SparseNetwork, game: Game, history: int, *, threads: int) -> None:
        self.name = f"{threads} x sparse float32"
        self._game, self._history, self._threads = game, history, threads
        self._kernels = kernels_for(game.name, network.architecture.widths)
        self._pool = ThreadPoolExecutor(threads, "net")
        self._in_flight: dict[int, tuple[Answers, list[Future[None]]]] = {}
        self.set_weights(network)

    def set_weights(self, network: SparseNetwork) -> None:
        tensors = {name: tensor.numpy() for name, tensor in network.state_dict().items()}
        self._weights = as_vector(tensors, self._game, network.architecture)

    def start(self, batch: Batch, slot: int) -> None:
        answers = np.empty(len(batch.actions), np.float32), np.empty((batch.rows, 3), np.float32)
        ends = np.concatenate([[0], np.cumsum(batch.counts, dtype=np.int64)])
        step = max(LEAST_ROWS, -(-batch.rows // self._threads))

        def compute(begin: int, end: int) -> None:
            rows, legal = slice(begin, end), slice(int(ends[begin]), int(ends[end]))
            inputs = batch.features[rows], self._history, batch.counts[rows], batch.actions[legal]
            self._kernels.evaluate_all(self._weights, *inputs, answers[0][legal], answers[1][rows])

        parts = [(begin, min(begin + step, batch.rows)) for begin in range(0, batch.rows, step)]
        running = [self._pool.submit(compute, *part) for part in parts]
        self._in_flight[slot] = answers, running

    def finish(self, slot: int) -> Answers:
        answers, running = self._in_flight.pop(slot)
        for part in running:
            part.result()
        return answers

    def close(self) -> None:
        self._pool.shutdown()


class SparseTorchEngine:
    """See `net.engines.Engine`; on any device of torch."""

    may_overflow = False

    def __init__(self, network: SparseNetwork, device: str) -> None:
        self.name = "torch float32"
        self._device = torch.device(device)
        self._in_flight: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        self.set_weights(network)

    def set_weights(self, network: SparseNetwork) -> None:
        self._network = network.to(self._device)

    @torch.inference_mode()
    def start(self, batch: Batch, slot: int) -> None:
        inputs = self._network.inputs_of(batch.features, batch.counts, batch.actions).to(self._device)
        logits, value = self._network(inputs)
        largest = logits.new_zeros(batch.rows).scatter_reduce(
            0, inputs.of, logits, "amax", include_self=False
        )
        shares = (logits - largest[inputs.of]).exp()
        sums = shares.new_zeros(batch.rows).scatter_add(0, inputs.of, shares)
        self._in_flight[slot] = shares / sums[inputs.of], value.softmax(dim=1)

    def finish(self, slot: int) -> Answers:
        priors, wdl = self._in_flight.pop(slot)
        return priors.cpu().numpy(), wdl.cpu().numpy()

    def close(self) -> None:
        self._in_flight.clear()
