"""A network that answers batches of packed positions on one device: what evaluators and players call.

On a GPU, batches of planes are padded to a few fixed sizes (buckets). `submit` starts a batch and `collect`
waits for it; with two in flight on a GPU, the copies of one overlap with the computing of the other. On a CPU
an `Inference` has threads of its own. Use an `Inference` from one thread at a time.

An `Engine` computes a batch; `make_engine` chooses one for a network and a device. There is one for CPUs
(`net.cpu.engine`), one for networks of planes on CUDA (`net.torch_engine`), and one for sparse networks on
CUDA, in this file: the kernels of `net.sparse_kernel` describe the positions, and the torch module computes.
Play on a CPU needs none: there a sparse network is part of the search (`net.sparse`).
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch

from azselfplay.games import get_game
from azselfplay.games.spec import Game
from azselfplay.host.hardware import usable_cores
from net.architectures.network import Network, fold
from net.architectures.sparse import SparseNetwork
from net.batches import (
    CPU_BUCKETS,
    CPU_LARGEST_TARGET,
    CPU_TARGET,
    CUDA_BUCKETS,
    CUDA_TARGET,
    buckets_up_to,
    choose_target,
    made_up_batch,
)
from net.cpu.engine import CpuEngine, faster_dtype
from net.gpu import OnCuda, check_device, chosen_kernels, inference_dtype, wider_dtype
from net.torch_engine import ModuleForward, TorchEngine
from net.weights import WeightsMeta, load
from protocol.frames import EvaluationFrames, LeafBatch, are_probabilities

Priors = npt.NDArray[Any]
Wdl = npt.NDArray[np.float32]

log = logging.getLogger(__name__)
PROBE_SECONDS = 1.0
"""About how long the measurement of `target_rows` may take, if no other process uses the cores."""
PROBE_TURNS = 5
_PROBE_ROWS_FROM = 8


@dataclass(frozen=True)
class Ticket:
    """A submitted batch."""

    batch: LeafBatch
    slot: int


class Inference:
    """`load` weights, then `run` batches, or `submit` and `collect` them.

    device: "cpu", "cuda" or "cuda:N". threads: CPU threads that compute (None or 0: one per core that this
    process may use). max_rows: largest batch (0: the largest usual bucket). target_rows: rows worth
    collecting for one batch (0: measured on the first load). compiled: let torch compile the network for a
    GPU, as evaluators that serve for hours do; the variable AZ_CUDA_KERNELS overrides this.
    """

    in_flight = 2
    """Batches that may be submitted and not yet collected."""
    out_of_memory: type[Exception] = torch.cuda.OutOfMemoryError
    """What is raised if the device has no memory for a batch."""

    def __init__(
        self,
        game: Game | str,
        history: int,
        device: str = "cpu",
        *,
        threads: int | None = None,
        max_rows: int = 0,
        target_rows: int = 0,
        compiled: bool = False,
    ) -> None:
        self.game = get_game(game) if isinstance(game, str) else game
        self.history = history
        self.device = device
        self.is_cuda = device != "cpu"
        check_device(device)  # before anything is computed: torch would fail only at its first kernel
        self.threads = threads or usable_cores()
        self.buckets = buckets_up_to(CUDA_BUCKETS if self.is_cuda else CPU_BUCKETS, max_rows)
        self.max_rows = self.buckets[-1]
        self._wanted_target = target_rows
        default = target_rows or (CUDA_TARGET if self.is_cuda else CPU_TARGET)
        self.target_rows = min(default, self.max_rows)
        self.meta: WeightsMeta | None = None
        self._engine: Engine | None = None
        self._network: Network | None = None
        """The engine's network, folded."""
        kernels = "compile" if compiled else "cudnn"
        self._on_cuda = OnCuda(chosen_kernels(kernels) if self.is_cuda else kernels)
        """How the next engine runs."""
        self._wide: Engine | None = None
        """An engine in a format of wider range, for batches that overflow the first engine's format."""
        self._free = list(range(self.in_flight))

    @property
    def device_name(self) -> str:
        """Return a description, for messages, of what computes and how."""
        name = f"{self.device} {torch.cuda.get_device_name(self.device)}" if self.is_cuda else "cpu"
        return name if self._engine is None else f"{name}, {self._engine.name}"

    def load(self, path: Path | str, sha256: bytes | None = None) -> WeightsMeta:
        """Load the weights in a file, if it has this hash (see `net.weights.load`). Raises BadWeights when
        they cannot be used, and OSError when the disk cannot be read; either way the old weights stay."""
        network, meta = load(path, game=self.game, history=self.history, sha256=sha256)
        self.use(network, meta)
        return meta

    def use(self, network: Network, meta: WeightsMeta) -> None:
        """Use the weights of a network in memory. Raises RuntimeError while batches are in flight."""
        if len(self._free) != self.in_flight:
            raise RuntimeError("collect all batches before loading other weights")
        folded = fold(network)
        same = self.meta is not None and self.meta.architecture.played == meta.architecture.played
        # Only the numbers change, so kernels and graphs stay. A network that overflowed gets a new engine.
        if self._engine is not None and self._wide is None and same:
            self._engine.set_weights(folded)
            self._network, self.meta = folded, meta
            return
        if not self._begin(folded, meta):
            self._network, self.meta = folded, meta
            self.halve()

    def _begin(self, folded: Network, meta: WeightsMeta) -> bool:
        """Compute with this network from now on. The previous engine stays if a new one cannot be made.
        Returns False if the device has no memory for it. The exception, which keeps the failed engine's
        buffers alive, is gone by then."""
        try:
            engine = self._make(folded, self.in_flight, self._on_cuda)
            self.close()  # only now: if `_make` raises, the old engine stays
            self._engine, self._network, self.meta = engine, folded, meta
            self._prepare()
        except torch.cuda.OutOfMemoryError:
            return False
        return True

    def _make(self, folded: Network, in_flight: int, on_cuda: OnCuda) -> Engine:
        return make_engine(
            folded,
            self.game,
            self.history,
            self.device,
            threads=self.threads,
            buckets=self.buckets,
            in_flight=in_flight,
            on_cuda=on_cuda,
        )

    def halve(self) -> None:
        """Halve the largest batch (repeatedly if needed), because the device has no memory for it. Batches in
        flight are lost. Raises torch's OutOfMemoryError if one row is too many."""
        if self._network is None or self.meta is None:
            raise RuntimeError("no weights are loaded yet")
        while True:
            self.close()
            self._free = list(range(self.in_flight))
            # Free the failed engine's buffers first, or even half as many rows would find no room.
            if self.is_cuda:
                torch.cuda.empty_cache()
            if self.max_rows == 1:
                raise torch.cuda.OutOfMemoryError(f"{self.device} has no room for a batch of one row")
            self.buckets = buckets_up_to(self.buckets, self.max_rows // 2)
            self.max_rows = self.buckets[-1]
            self.target_rows = min(self.target_rows, self.max_rows)
            if self._begin(self._network, self.meta):
                return

    def room_for(self, rows: int) -> npt.NDArray[np.uint64]:
        """Return uint64[rows, words] for the features of the next batch. Write them there and pass it to
        `submit`.

        On a GPU this is the pinned memory from which features are uploaded, in one piece. So the CPU copies a
        row only once, from the rings' slots to here: 0.12 us for a row of chess; a batch of its own and a
        second copy took 0.18. Registering the rings with CUDA and uploading each slot by itself would take a
        call of 10 us a slot: 0.08 us a row if all are full, and 0.6 with 16 rows. At the 350,000 rows a
        second of an H100 that is 3 to 22 % of a core instead of 4 %, and every producer's memory would be
        pinned. (The first three figures are of a CPU.)"""
        if isinstance(self._engine, TorchEngine) and self._free and rows <= self.max_rows:
            return self._engine.room(self._free[-1], rows)
        return np.empty((rows, self.game.feature_words(self.history)), np.uint64)

    def submit(self, batch: LeafBatch) -> Ticket:
        """Start a batch of at most `max_rows` positions.

        The arrays are not checked here: the kernels write as many priors as `counts` says, and read logits
        where actions point. They must not change until `collect`. Raises ValueError for too many positions,
        and RuntimeError without weights or with `in_flight` batches not collected.
        """
        if batch.rows > self.max_rows:
            raise ValueError(f"{batch.rows} rows are more than the largest batch, {self.max_rows}")
        if self._engine is None:
            raise RuntimeError("no weights are loaded yet")
        if not self._free:
            raise RuntimeError(f"{self.in_flight} batches are in flight already: collect one first")
        # Take the slot only after the start: an engine that raises leaves it free.
        slot = self._free[-1]
        self._engine.start(batch, slot)
        self._free.pop()
        return Ticket(batch, slot)

    def collect(self, ticket: Ticket) -> tuple[Priors, Wdl]:
        """Wait for a batch: priors `[sum(counts)]` over legal actions (float16 or float32), wdl `float32[n,
        3]`."""
        if self._engine is None or ticket.slot in self._free:
            raise RuntimeError("this batch is not in flight")
        try:
            answers = self._engine.finish(ticket.slot)
        finally:  # whatever the numbers are, or if the engine fails
            self._free.append(ticket.slot)
        # Priors too: an overflow may be only in the policy, or hidden from the value by a ReLU.
        if self._engine.may_overflow and not are_probabilities(EvaluationFrames(*answers)):
            return self._recompute(ticket.batch)
        return answers

    def _recompute(self, batch: LeafBatch) -> tuple[Priors, Wdl]:
        """Compute a batch in a wider format. After the next load all batches use it."""
        if self._wide is None:
            assert self._network is not None
            log.warning("the network overflows float16 on %s: bfloat16 or float32 from now on", self.device)
            self._on_cuda = self._on_cuda._replace(dtype=wider_dtype(self.device))
            # Not compiled, because somebody waits for this batch.
            kernels = "plain" if self._on_cuda.kernels == "plain" else "cudnn"
            self._wide = self._make(self._network, 1, self._on_cuda._replace(kernels=kernels))
        self._wide.start(batch, 0)
        return self._wide.finish(0)

    def run(self, batch: LeafBatch) -> tuple[Priors, Wdl]:
        """`submit` and `collect`, for any number of rows."""
        if batch.rows <= self.max_rows:
            return self.collect(self.submit(batch))
        parts = []
        while batch.rows:
            first, batch = batch.split(self.max_rows)
            parts.append(self.collect(self.submit(first)))
        return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])

    def close(self) -> None:
        """Release threads and memory; a later `load` makes new ones."""
        for engine in (self._engine, self._wide):
            if engine is not None:
                engine.close()
        self._engine = self._wide = None

    def _prepare(self) -> None:
        """Create kernels and graphs, which are made on first use, and find the target."""
        for bucket in self.buckets if self.is_cuda else (1,):
            batch = made_up_batch(self.game, self.history, bucket)
            for ticket in [self.submit(batch) for _ in range(self.in_flight)]:  # graphs of each slot
                self.collect(ticket)
        if not self._wanted_target:
            self.target_rows = choose_target(self._probe())

    def _probe(self) -> list[dict[int, float]]:
        """Return seconds by bucket, for each of PROBE_TURNS turns and as many buckets as PROBE_SECONDS allow;
        on a CPU at most CPU_LARGEST_TARGET rows."""
        batches: dict[int, LeafBatch] = {}
        turn = 0.0
        least = min(_PROBE_ROWS_FROM, self.max_rows)
        most = self.max_rows if self.is_cuda else max(least, CPU_LARGEST_TARGET)
        for bucket in (rows for rows in self.buckets if least <= rows <= most):
            batches[bucket] = batch = made_up_batch(self.game, self.history, bucket)
            self._seconds(batch)  # not timed: some things are created on first use
            took = self._seconds(batch)
            turn += took
            if PROBE_TURNS * (turn + 2 * took) > PROBE_SECONDS:  # the next bucket takes twice as long
                break
        return [{rows: self._seconds(batch) for rows, batch in batches.items()} for _ in range(PROBE_TURNS)]

    def _seconds(self, batch: LeafBatch) -> float:
        """Return the seconds that a batch takes when it has the device to itself."""
        if self.is_cuda:  # with all slots in use, as when serving; nobody else uses the device
            start = time.perf_counter()
            for ticket in [self.submit(batch) for _ in range(self.in_flight)]:
                self.collect(ticket)
            return max(time.perf_counter() - start, 1e-6) / self.in_flight
        # On a CPU measure processor time, so that other processes do not affect the choice.
        begin = time.process_time()
        self.run(batch)
        return max(time.process_time() - begin, 1e-6) / self.threads


# ---- What computes a batch ---------------------------------------------------------------------------


class Engine(Protocol):
    """A folded network ready to run on one device, with a fixed number of batches in flight."""

    name: str
    may_overflow: bool
    """Whether it computes in the range of float16, which ends at 65,504."""

    def set_weights(self, network: Any) -> None:
        """Set new weights of the same architecture; only while nothing is in flight."""

    def start(self, batch: LeafBatch, slot: int) -> None:
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
    """Return the engine for a device: jitted loops and oneDNN on a CPU, CUDA graphs on a GPU."""
    if torch.device(device).type == "cpu":
        return CpuEngine(network, game, history, faster_dtype(), threads=threads)
    if isinstance(network, SparseNetwork):
        return SparseTorchEngine(network, device)
    # Batches have a few fixed sizes, so it pays to try out cuDNN's algorithms once for each.
    torch.backends.cudnn.benchmark = True
    dtype = on_cuda.dtype or inference_dtype(torch.cuda.get_device_capability(device))
    forward = ModuleForward(network, game, history, device, dtype, on_cuda.kernels)
    return TorchEngine(forward, buckets=buckets, in_flight=in_flight)


# ---- Sparse networks -------------------------------------------------------------------------------

Answers = tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]


class SparseTorchEngine:
    """See `Engine`; on any device of torch."""

    may_overflow = False

    def __init__(self, network: SparseNetwork, device: str) -> None:
        self.name = "torch float32"
        self._device = torch.device(device)
        self._in_flight: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        self.set_weights(network)

    def set_weights(self, network: SparseNetwork) -> None:
        self._network = network.to(self._device)

    @torch.inference_mode()
    def start(self, batch: LeafBatch, slot: int) -> None:
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
