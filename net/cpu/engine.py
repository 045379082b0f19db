"""How a network answers batches on a CPU. This is the page to read first about `net/cpu/`.

The usual way to run a network on many cores splits every layer over all cores, and waits for the slowest core
after each layer. On boards of 42 to 361 cells that is slow, and worse when other processes use the cores too.
Here the threads share only a list of chunks of positions: a thread takes a chunk, carries it through the
whole network, and takes the next. The activations of a chunk stay in its core's own cache.

The way of a batch:

 1. `CpuEngine.start` cuts it into chunks of at most 64 positions (`cut`), and every thread of the engine
    begins to drain the list (`_drain`). `finish` waits for all of them, so the caller goes on meanwhile.
 2. For a chunk, `Work.compute` runs the thread's own forward (`net.cpu.forward`):
    a. *Bits to the first layer* (`kernels.start_block`): each set bit adds its nine taps. A chess position
       sets about one cell in thirty, so this is a tenth of the work of the dense form. No planes are made.
    b. *The tower*: 3x3 convolutions (`net.cpu.convolutions`), either by Winograd's method in loops of our own
       (`net.cpu.winograd`) or by oneDNN through torch. Which one follows from shape and number format alone.
       Squeeze-and-excitation (`kernels.squeeze_excite_add`) is a loop as well.
    c. *Heads* (`kernels.plane_priors`, `flat_priors`, `win_draw_loss`): only the logits of legal actions are
       computed, and their softmax.
 3. The number format is float32 or bfloat16 (`faster_dtype`): the processor's features decide.

A network of another family (`transformer`) runs as the torch module that it is, with loops only at both ends
(`net.cpu.forward.ModuleOnCpu`); so does a tower if this torch lacks the operations of oneDNN that we call.
Sparse networks have an engine of their own (`net.inference.SparseEngine`).

What can be relied on: the same batch has the same answers with the same number of threads. Nothing is chosen
by measuring, because a measurement may go either way on a busy machine, and the same network must answer the
same in every run. The last bits of an answer may depend on how many rows its chunk has, since oneDNN adds up
in another order; so chunks have few sizes (`rounded_up`).

The files: `engine` threads and chunks; `forward` one chunk, and weights laid out for it; `kernels` the loops;
`convolutions` the choice of a method and the weights of both; `winograd` its loops, with vector instructions.
docs/decisions/0063 has what was measured.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch

from azselfplay.games.spec import Game
from net.architectures.network import BoardNetwork, Network, placed
from net.architectures.residual import ResidualNetwork
from net.batches import Batch
from net.cpu.convolutions import packed_available
from net.cpu.forward import CpuForward, CpuWeights, ModuleOnCpu
from net.planes import PlaneShape

F32 = npt.NDArray[np.float32]
STEP = 4
"""Chunks are run as 1, 2 or a multiple of STEP rows, because oneDNN prepares each number that it gets
once."""
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
        self.name = f"{threads} x oneDNN {str(dtype).removeprefix('torch.')}"
        self._game, self._history, self._dtype, self._threads = game, history, dtype, threads
        assert isinstance(network, BoardNetwork)
        row_bytes = game.cells * network.architecture.channels * dtype.itemsize
        self._own_kernels = packed_available(dtype)
        # Whole steps, so that all chunks but a batch's last have a size that oneDNN has prepared.
        self._chunk = max(STEP, min(LARGEST_CHUNK, CACHE_BYTES // row_bytes // STEP * STEP))

        def prepare() -> None:  # both settings hold for the thread that makes them only
            torch.set_num_threads(1)
            torch.set_flush_denormal(True)

        self._pool = ThreadPoolExecutor(threads, "net", prepare)
        self._in_flight: dict[int, tuple[Work, list[Future[None]]]] = {}
        self.set_weights(network)

    def set_weights(self, network: Network) -> None:
        # In a computing thread, because a library's choices depend on settings of the thread.
        make = self._pool.submit(self._lay_out, network).result()
        self._forwards: SimpleQueue[Forward] = SimpleQueue()
        for _ in range(self._threads):  # one each, so that `get` never waits
            self._forwards.put(make())

    def _lay_out(self, network: Network) -> Callable[[], Forward]:
        """A function that makes a forward for each thread."""
        shape, chunk = (self._game, self._history), self._chunk
        if self._own_kernels and isinstance(network, ResidualNetwork):
            weights = CpuWeights(network, *shape, self._dtype, chunk)
            return lambda: CpuForward(weights, chunk)
        module, planes = placed(network, "cpu", self._dtype), PlaneShape.of(*shape)
        return lambda: ModuleOnCpu(module, planes, self._dtype, chunk)

    def start(self, batch: Batch, slot: int) -> None:
        work = Work.of(batch)
        # One task for each thread and not for each chunk: whoever is free takes the next chunk.
        chunks = iter(cut(batch.rows, self._chunk, self._threads))
        futures = [self._pool.submit(self._drain, work, chunks) for _ in range(self._threads)]
        self._in_flight[slot] = (work, futures)

    def finish(self, slot: int) -> tuple[npt.NDArray[np.float16], F32]:
        work, futures = self._in_flight.pop(slot)
        for future in futures:
            future.result()  # raises what its thread raised
        return work.priors.astype(np.float16), work.wdl

    def close(self) -> None:
        self._pool.shutdown()

    @torch.inference_mode()
    def _drain(self, work: Work, chunks: Iterator[tuple[int, int]]) -> None:
        """Compute chunks until none is left; the other threads take from the same iterator."""
        forward = self._forwards.get()
        try:
            for start, stop in chunks:
                work.compute(forward, start, stop)
        finally:
            self._forwards.put(forward)


class Forward(Protocol):
    """A network on one core."""

    def __call__(self, batch: Batch, bucket: int, priors: F32, wdl: F32, /) -> None:
        """Answer `batch` into `priors [sum of counts]` and `wdl [rows, 3]`, run as `bucket` rows."""


@dataclass(frozen=True)
class Work:
    """A batch, where its chunks begin and end, and where the answers go."""

    batch: Batch
    ends: npt.NDArray[np.int64]
    """Where the actions of each row begin; one more entry than rows."""
    priors: F32
    wdl: F32

    @staticmethod
    def of(batch: Batch) -> Work:
        ends = np.zeros(batch.rows + 1, dtype=np.int64)
        np.cumsum(batch.counts, out=ends[1:])
        priors = np.empty(batch.actions.shape[0], np.float32)
        return Work(batch, ends, priors, np.empty((batch.rows, 3), np.float32))

    def compute(self, forward: Forward, start: int, stop: int) -> None:
        """Answer the rows from `start` to `stop`."""
        first, last = int(self.ends[start]), int(self.ends[stop])
        batch = self.batch
        part = Batch(batch.features[start:stop], batch.counts[start:stop], batch.actions[first:last])
        forward(part, rounded_up(stop - start), self.priors[first:last], self.wdl[start:stop])


def cut(rows: int, most: int, threads: int) -> list[tuple[int, int]]:
    """Split into chunks of at most `most` rows (a multiple of STEP), as even as whole steps allow.

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
    """The number of rows that a chunk of `rows` rows is run as."""
    return rows if rows <= 2 else -(-rows // STEP) * STEP


def faster_dtype() -> torch.dtype:
    """bfloat16 on a CPU whose instructions for it are faster than those for float32 (about twice), else
    float32.

    It is read from the CPU's features and not measured: a measurement may go either way on a busy machine,
    and the same network must answer the same in every run.
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
    """Whether oneDNN uses bfloat16 here: `ONEDNN_MAX_CPU_ISA` may forbid what the CPU has."""
    return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
