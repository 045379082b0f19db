"""Runs batches through `ModuleForward` in slots: the engine of every CUDA device, and of any CPU."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch

from games.spec import Game
from net.architectures.network import Network
from net.batches import Batch, bucket_for
from net.module_forward import NO_ACTION, ModuleForward
from net.ragged import compact, spread
from net.slots import Slot

Answers = tuple[npt.NDArray[np.float16], npt.NDArray[np.float32]]


class TorchEngine:
    """See `net.engines.Engine`."""

    def __init__(
        self,
        network: Network,
        game: Game,
        history: int,
        device: str,
        dtype: torch.dtype,
        *,
        buckets: tuple[int, ...],
        in_flight: int,
    ) -> None:
        self.name = f"torch {str(dtype).removeprefix('torch.')}"
        self._device = torch.device(device)
        self._forward = ModuleForward(network, game, history, device, dtype)
        self._buckets = buckets
        self._batches: dict[int, Batch] = {}
        feature_words = game.feature_words(history)
        self._slots = [
            Slot(self._forward, buckets[-1], feature_words, game.max_legal, self._device)
            for _ in range(in_flight)
        ]
        self._settle()

    @torch.inference_mode()
    def set_weights(self, network: Network) -> None:
        self._forward.set_weights(network)
        self._settle()

    @torch.inference_mode()
    def start(self, batch: Batch, slot: int) -> None:
        host = self._slots[slot].host
        host.packed_features.numpy().view(np.uint64)[: batch.rows] = batch.features
        spread(batch.actions, batch.counts, NO_ACTION, host.legal.numpy())
        self._slots[slot].start(bucket_for(max(1, batch.rows), self._buckets))
        self._batches[slot] = batch

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
        """Wait until writes on the default stream are finished, because slots have streams of their own."""
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
