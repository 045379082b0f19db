"""A network that invents answers without computing anything, and a front for it, so that benchmarks see what
everything else costs."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from azselfplay.games import get_game
from azselfplay.search.settings import resolve
from protocol.settings import SelfPlaySettings
from server.front import Front, FrontSettings
from server.weights import WeightsStore

GAME = get_game("chess")


class MadeUpNetwork:
    """Priors depend on the action and values on a hash of the position, so searches are deep and games all
    differ."""

    target_rows = max_rows = 64
    in_flight = 1
    device_name = "made up"
    out_of_memory: type[Exception] = MemoryError

    def __init__(self, batch_seconds: float) -> None:
        self._batch_seconds = batch_seconds
        self._weights = np.exp(1.5 * np.random.default_rng(0).normal(size=GAME.actions)).astype(np.float32)
        self._done_at = 0.0

    def load(self, path: str, sha256: bytes) -> None:
        """Do nothing: there are no weights."""

    def room_for(self, rows: int) -> npt.NDArray[np.uint64]:
        return np.empty((rows, GAME.feature_words(GAME.history)), np.uint64)

    def submit(
        self,
        features: npt.NDArray[np.uint64],
        counts: npt.NDArray[np.uint16],
        actions: npt.NDArray[np.uint16],
    ) -> Any:
        weights = self._weights[actions]
        sums = np.add.reduceat(weights, np.cumsum(counts, dtype=np.int64) - counts)
        bits = features[:, :12].sum(axis=1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        win = (bits >> np.uint64(40)).astype(np.float32) / (1 << 25)
        wdl = np.stack([win, np.full_like(win, 0.5), 0.5 - win], axis=1)
        return (weights / np.repeat(sums, counts)).astype(np.float16), wdl

    def run(self, *positions: Any) -> Any:
        return self.collect(self.submit(*positions))

    def halve(self) -> None:
        """Do nothing: this network never runs out of memory."""

    def collect(self, ticket: Any) -> Any:
        self._done_at = max(self._done_at + self._batch_seconds, time.monotonic())
        time.sleep(max(0.0, self._done_at - time.monotonic()))
        return ticket


def front_in(folder: Path, evaluators: int) -> Front:
    """Return a front for chess on sockets in `folder`."""
    store = WeightsStore(folder, GAME.name)
    # No real weights: the made-up network does not read them.
    store.add(b"made up", 0, 0, "tiny")
    settings = FrontSettings(
        run="bench",
        game=GAME,
        history=GAME.history,
        self_play=asdict(resolve(SelfPlaySettings(), GAME)),
        leaves=(f"ipc://{folder}/leaves",),
        bulk=(f"ipc://{folder}/bulk",),
        evaluators=f"ipc://{folder}/evaluators",
        rings=tuple(folder / f"ring-{index}" for index in range(evaluators)),
        devices=evaluators,
    )
    return Front(settings, store)
