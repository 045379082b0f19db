"""Runs batches through a network as a torch module, with CUDA graphs: the engine of every CUDA device.

A batch in flight has a `Slot`: buffers on host and device, a stream, and a captured graph for each bucket.
With two slots, the copies and the unpacking of one batch overlap with the computing of the other. Slots share
only the weights, which are written only while no slot is busy. `ModuleForward` is what a graph captures:
packed words to planes, the network, and the softmax over legal actions.

On a GPU, libraries choose for each bucket how they compute, so the last bits of an answer depend on the
bucket. The engine also runs on a CPU. There host and device share the same memory, and `start` computes
everything before it returns, one row at a time: this is slow, but no answer depends on the other rows.
"""

from __future__ import annotations

import logging
import os
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from azselfplay.games.jit import CACHE, jit
from azselfplay.games.spec import Game
from net.architectures.network import Network, placed, wdl_of, with_cudnn
from net.batches import CUDA_BUCKETS
from net.planes import Planes, PlaneShape
from protocol.frames import LeafBatch

log = logging.getLogger(__name__)
Answers = tuple[npt.NDArray[np.float16], npt.NDArray[np.float32]]
U16 = npt.NDArray[np.uint16]
WARM_UP_RUNS = 3
"""Runs before a graph is captured, in which cuDNN chooses its algorithms."""
NO_ACTION = -1
"""Pads the legal action lists of a batch to a common length."""
EXAMPLE_ROWS = CUDA_BUCKETS[0]
"""Rows of the example with which the network is compiled. The result serves as many rows and more."""
MOST_COMPILED = 256
"""Networks that one process may compile: torch counts them, and stops at 8 by default."""
_NEVER = -1e30
"""Logit of NO_ACTION: finite, so that a padding row without any action gives no NaN."""


class TorchEngine:
    """See `net.inference.Engine`."""

    def __init__(self, forward: ModuleForward, *, buckets: tuple[int, ...], in_flight: int) -> None:
        self.name = forward.name
        self.may_overflow = forward.dtype == torch.float16
        self._device = forward.device
        self._forward = forward
        self._buckets = buckets
        self._batches: dict[int, LeafBatch] = {}
        self._slots = [Slot(forward, buckets[-1]) for _ in range(in_flight)]
        self._settle()

    @torch.inference_mode()
    def set_weights(self, network: Network) -> None:
        self._forward.set_weights(network)
        self._settle()

    @torch.inference_mode()
    def start(self, batch: LeafBatch, slot: int) -> None:
        host = self._slots[slot].host
        room = self.room(slot, batch.rows)
        # The evaluator has usually written its features there itself (`Inference.room_for`).
        if batch.features.ctypes.data != room.ctypes.data:
            room[:] = batch.features
        spread(batch.actions, batch.counts, NO_ACTION, host.legal.numpy())
        self._slots[slot].start(next(bucket for bucket in self._buckets if batch.rows <= bucket))
        self._batches[slot] = batch

    def room(self, slot: int, rows: int) -> npt.NDArray[np.uint64]:
        """Return the memory `[rows, words]` from which a free slot uploads its batch; features written there
        need no other copy."""
        room: npt.NDArray[np.uint64] = self._slots[slot].host.packed_features.numpy().view(np.uint64)[:rows]
        return room

    def finish(self, slot: int) -> Answers:
        self._slots[slot].wait()
        batch = self._batches.pop(slot)
        host = self._slots[slot].host
        priors = np.empty(batch.actions.shape[0], dtype=np.float16)
        compact(host.priors.numpy().view(np.uint16), batch.counts, priors.view(np.uint16))
        return priors, host.wdl.numpy()[: batch.rows].copy()

    def close(self) -> None:
        self._settle()
        self._slots.clear()

    def _settle(self) -> None:
        """Wait until writes on the default stream are done: slots have streams of their own, which do not
        wait."""
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)


class Slot:
    """The buffers of one batch, and what runs the network on them."""

    def __init__(self, forward: ModuleForward, rows: int) -> None:
        device, sizes = forward.device, (rows, forward.feature_words, forward.max_legal, forward.actions)
        on_cuda = device.type == "cuda"
        self._forward = forward
        self.host = Buffers.make(*sizes, torch.device("cpu"), pinned=on_cuda)
        self._device = Buffers.make(*sizes, device, pinned=False) if on_cuda else self.host
        self._stream = torch.cuda.Stream(device) if on_cuda else None  # type: ignore[no-untyped-call]
        self._done = torch.cuda.Event(blocking=True) if on_cuda else None  # type: ignore[no-untyped-call]
        self._graphs: dict[int, torch.cuda.CUDAGraph] = {}
        self._pool = torch.cuda.graph_pool_handle() if on_cuda else None

    def start(self, bucket: int) -> None:
        """Run the first `bucket` rows of `host`; the answer is in `host` after `wait`."""
        if self._stream is None or self._done is None:
            # One row at a time, so that no answer depends on the others.
            for row in range(bucket):
                self._compute(slice(row, row + 1))
            return
        host, device = self.host, self._device
        with torch.cuda.stream(self._stream):
            device.packed_features[:bucket].copy_(host.packed_features[:bucket], non_blocking=True)
            device.legal[:bucket].copy_(host.legal[:bucket], non_blocking=True)
            if bucket not in self._graphs:
                # Warm up on the stream and with the buffers that the graph will use.
                for _ in range(WARM_UP_RUNS):
                    self._compute(slice(bucket))
                # The warm-up must be over before the capture begins.
                torch.cuda.synchronize()
                graph = torch.cuda.CUDAGraph()
                # Graphs of one slot share a memory pool, because they never run at the same time.
                with torch.cuda.graph(graph, pool=self._pool, stream=self._stream):
                    self._compute(slice(bucket))
                self._graphs[bucket] = graph
            self._graphs[bucket].replay()
            host.priors[:bucket].copy_(device.priors[:bucket], non_blocking=True)
            host.wdl[:bucket].copy_(device.wdl[:bucket], non_blocking=True)
            self._done.record(self._stream)

    def wait(self) -> None:
        if self._done is not None:
            self._done.synchronize()

    def _compute(self, rows: slice) -> None:
        buffers = self._device
        priors, wdl = self._forward(buffers.packed_features[rows], buffers.legal[rows])
        buffers.priors[rows].copy_(priors)
        buffers.wdl[rows].copy_(wdl)


@dataclass(frozen=True)
class Buffers:
    """Input and output of one batch; `rows` is the largest bucket."""

    packed_features: Tensor
    """int64[rows, words]"""
    legal: Tensor
    """int16[rows, max_legal], padded with NO_ACTION; int32 if the game has actions above 32,767"""
    priors: Tensor
    """float16[rows, max_legal]"""
    wdl: Tensor
    """float32[rows, 3]"""

    @staticmethod
    def make(
        rows: int, feature_words: int, max_legal: int, actions: int, device: torch.device, *, pinned: bool
    ) -> Buffers:
        def zeros(width: int, dtype: torch.dtype) -> Tensor:
            return torch.zeros((rows, width), dtype=dtype, device=device, pin_memory=pinned)

        # int16 halves the bytes to upload, for every game but the largest.
        legal = zeros(max_legal, torch.int16 if actions <= 1 << 15 else torch.int32)
        legal.fill_(NO_ACTION)
        return Buffers(
            zeros(feature_words, torch.int64), legal, zeros(max_legal, torch.float16), zeros(3, torch.float32)
        )


class ModuleForward:
    """`(words int64[n, words], legal int16[n, k]) -> (priors float16[n, k], wdl float32[n, 3])`.

    network: a folded one, which is copied. kernels: one of `net.gpu.KERNELS`; all but "plain" run on CUDA
    only.
    """

    def __init__(
        self,
        network: Network,
        game: Game,
        history: int,
        device: str,
        dtype: torch.dtype,
        kernels: str = "plain",
    ) -> None:
        self.device, self.dtype = torch.device(device), dtype
        self.name = f"torch {str(dtype).removeprefix('torch.')}{'' if kernels == 'plain' else ' ' + kernels}"
        self.feature_words, self.max_legal = game.feature_words(history), game.max_legal
        self.actions = game.actions
        self._planes = Planes(PlaneShape.of(game, history), dtype).to(device)
        self._module = placed(network, device, dtype)
        if kernels != "plain":
            with_cudnn(self._module)
        self._run = self._compiled() if kernels == "compile" else self._answers

    @torch.inference_mode()
    def _compiled(self) -> Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]:
        """Return `_answers` compiled by torch, for EXAMPLE_ROWS and more, or `_answers` itself if torch
        cannot compile here, as on a machine without a C compiler."""
        torch._dynamo.config.recompile_limit = MOST_COMPILED
        # In the folder of our own compiled code, which is kept between starts and removed when it is old.
        os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(CACHE / "torch"))
        # Compile in this process: compiler processes would stay, and an evaluator needs none.
        torch._inductor.config.compile_threads = 1
        sizes = EXAMPLE_ROWS, self.feature_words, self.max_legal, self.actions
        example = Buffers.make(*sizes, self.device, pinned=False)
        inputs = example.packed_features, example.legal
        for one in inputs:
            torch._dynamo.mark_dynamic(one, 0)
        compiled = torch.compile(self._answers, fullgraph=True)
        began = time.monotonic()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # advice for people who write networks
                compiled(*inputs)
        except torch.OutOfMemoryError:
            raise
        except Exception as error:
            # The compiler's errors have dozens of lines.
            reason = str(error).strip().partition("\n")[0]
            log.warning("torch cannot compile the network here, so evaluations are slower: %s", reason)
            self.name = self.name.replace(" compile", " cudnn")
            return self._answers
        log.info("compiled the network for %s in %.0f s", self.device, time.monotonic() - began)
        return compiled

    def set_weights(self, network: Network) -> None:
        """Replace the weights in place, so that captured graphs use them. The architecture must be the
        same."""
        ours = self._module.state_dict()
        for name, tensor in network.state_dict().items():
            ours[name].copy_(tensor)  # not replaced: a graph holds addresses

    def __call__(self, packed_features: Tensor, legal: Tensor) -> tuple[Tensor, Tensor]:
        """Return priors and win, draw, loss. Priors are the softmax over each row's legal actions; 0 at
        NO_ACTION."""
        return self._run(packed_features, legal)

    def _answers(self, packed_features: Tensor, legal: Tensor) -> tuple[Tensor, Tensor]:
        planes = self._planes(packed_features)
        logits, value_logits = self._module(planes.contiguous(memory_format=torch.channels_last))
        chosen = logits.gather(1, legal.clamp(min=0).long()).float().masked_fill(legal == NO_ACTION, _NEVER)
        return chosen.softmax(dim=1).half(), wdl_of(value_logits)


# ---- Lists of legal actions, concatenated or in a rectangle with one row for each position ----------


@jit
def spread(actions: U16, counts: U16, filler: int, out: npt.NDArray[np.int16]) -> None:
    """Write list `i` of `actions`, which has `counts[i]` entries, to row `i` of `out`, and fill it with
    `filler`."""
    at = 0
    for row in range(counts.shape[0]):
        count = int(counts[row])
        for k in range(count):
            out[row, k] = actions[at + k]
        out[row, count:] = filler
        at += count


@jit
def compact(rectangle: U16, counts: U16, out: U16) -> None:
    """Concatenate the first `counts[i]` entries of each row of `rectangle` (float16 seen as its bits)."""
    at = 0
    for row in range(counts.shape[0]):
        for k in range(int(counts[row])):
            out[at] = rectangle[row, k]
            at += 1
