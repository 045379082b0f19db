"""One batch in flight on a device: buffers on both sides, a stream, and CUDA graphs.

With two slots, the copies and the unpacking of one batch overlap with the computing of the other. Slots share
only the weights, which are written only while no slot is busy. On a CPU both sides are the same memory,
`start` has computed everything when it returns, and it computes one row at a time: slow, but no answer
depends on the other rows. On a GPU libraries choose for each bucket how they compute, and the last bits of an
answer depend on the bucket.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from net.module_forward import NO_ACTION, ModuleForward

WARM_UP_RUNS = 3
"""Runs before a graph is captured, in which cuDNN chooses its algorithms."""


@dataclass(frozen=True)
class Buffers:
    """Input and output of one batch; `rows` is the largest bucket."""

    packed_features: Tensor
    """int64[rows, words]"""
    legal: Tensor
    """int32[rows, max_legal], padded with NO_ACTION"""
    priors: Tensor
    """float16[rows, max_legal]"""
    wdl: Tensor
    """float32[rows, 3]"""

    @staticmethod
    def make(rows: int, feature_words: int, max_legal: int, device: torch.device, *, pinned: bool) -> Buffers:
        def zeros(width: int, dtype: torch.dtype) -> Tensor:
            return torch.zeros((rows, width), dtype=dtype, device=device, pin_memory=pinned)

        legal = zeros(max_legal, torch.int32)
        legal.fill_(NO_ACTION)
        return Buffers(
            zeros(feature_words, torch.int64), legal, zeros(max_legal, torch.float16), zeros(3, torch.float32)
        )


class Slot:
    """Buffers of one batch and the way to run the network on them."""

    def __init__(
        self, forward: ModuleForward, rows: int, feature_words: int, max_legal: int, device: torch.device
    ):
        on_cuda = device.type == "cuda"
        self._forward = forward
        self.host = Buffers.make(rows, feature_words, max_legal, torch.device("cpu"), pinned=on_cuda)
        self._device = (
            Buffers.make(rows, feature_words, max_legal, device, pinned=False) if on_cuda else self.host
        )
        self._stream = torch.cuda.Stream(device) if on_cuda else None  # type: ignore[no-untyped-call]
        self._done = torch.cuda.Event(blocking=True) if on_cuda else None  # type: ignore[no-untyped-call]
        self._graphs: dict[int, torch.cuda.CUDAGraph] = {}
        self._pool = torch.cuda.graph_pool_handle() if on_cuda else None

    def start(self, bucket: int) -> None:
        """Run the first `bucket` rows of `host`; the answer is in `host` after `wait`."""
        if self._stream is None or self._done is None:
            for row in range(bucket):
                self._compute(slice(row, row + 1))
            return
        host, device = self.host, self._device
        with torch.cuda.stream(self._stream):
            device.packed_features[:bucket].copy_(host.packed_features[:bucket], non_blocking=True)
            device.legal[:bucket].copy_(host.legal[:bucket], non_blocking=True)
            self._graph(bucket).replay()
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

    def _graph(self, bucket: int) -> torch.cuda.CUDAGraph:
        """The captured computation of a bucket. Graphs of one slot share a memory pool, because they never
        run at the same time."""
        if bucket not in self._graphs:
            for _ in range(WARM_UP_RUNS):
                self._compute(slice(bucket))
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=self._pool, stream=self._stream):
                self._compute(slice(bucket))
            self._graphs[bucket] = graph
        return self._graphs[bucket]
