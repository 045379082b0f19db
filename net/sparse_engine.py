"""Answers batches with a sparse network, on CPU threads or on a device that torch serves.

On a CPU the kernels of `net.sparse_kernel` do it all. Elsewhere they only describe the positions, and the
module computes. For play on a CPU neither is needed: there the network is part of the search (`net.sparse`).
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import numpy.typing as npt
import torch

from games.spec import Game
from net.architectures.sparse import SparseNetwork
from net.batches import Batch
from net.sparse import as_vector, kernels_for

Answers = tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]

LEAST_ROWS = 64
"""Rows for which it pays to wake a thread."""


class SparseEngine:
    """See `net.engines.Engine`; on the CPU."""

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
        parts = [(begin, min(begin + step, batch.rows)) for begin in range(0, batch.rows, step)]
        running = [self._pool.submit(self._compute, batch, answers, ends, *part) for part in parts]
        self._in_flight[slot] = answers, running

    def _compute(
        self, batch: Batch, answers: Answers, ends: npt.NDArray[np.int64], begin: int, end: int
    ) -> None:
        first, last = int(ends[begin]), int(ends[end])
        self._kernels.evaluate_all(
            self._weights,
            batch.features[begin:end],
            self._history,
            batch.counts[begin:end],
            batch.actions[first:last],
            answers[0][first:last],
            answers[1][begin:end],
        )

    def finish(self, slot: int) -> Answers:
        answers, running = self._in_flight.pop(slot)
        for part in running:
            part.result()
        return answers

    def close(self) -> None:
        self._pool.shutdown()


class SparseTorchEngine:
    """See `net.engines.Engine`; on any device of torch."""

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
