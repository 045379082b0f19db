"""The input of an `Inference`: positions, their legal actions, and the buckets for batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from games.spec import Game

CPU_BUCKETS = (1, 4, 8, 16, 32, 64, 128, 256, 512)
CUDA_BUCKETS = (16, 64, 128, 256, 512, 1024, 2048)
"""Numbers of rows that a network is run with. They are fixed, so that kernels and graphs are prepared
once."""

CPU_TARGET = 64
CUDA_TARGET = 512
"""Default of `target_rows` where nothing was measured."""

GOOD_ENOUGH = 0.93
"""A bucket is large enough when it reaches this share of the throughput of endless batches."""

CPU_LARGEST_TARGET = 128
"""Networks that would gain from more rows are so small that workers and front limit the rate. A larger target
also means more games in flight (four times the target), so a new run's first games end later."""


@dataclass(frozen=True)
class Batch:
    """`features uint64[rows, words]`, `counts uint16[rows]`, `actions uint16[sum of counts]`."""

    features: npt.NDArray[np.uint64]
    counts: npt.NDArray[np.uint16]
    actions: npt.NDArray[np.uint16]

    @property
    def rows(self) -> int:
        return int(self.counts.shape[0])


def check_batch(batch: Batch, game: Game, feature_words: int) -> None:
    """Raise ValueError if the arrays of `batch` do not fit each other or the game."""
    if batch.counts.ndim != 1 or batch.actions.ndim != 1:
        raise ValueError("counts and actions must have one dimension")
    if batch.features.shape != (batch.rows, feature_words) or batch.features.dtype != np.uint64:
        raise ValueError(
            f"features must be uint64[{batch.rows}, {feature_words}], not {batch.features.shape}"
        )
    if batch.counts.dtype != np.uint16 or batch.actions.dtype != np.uint16:
        raise ValueError("counts and actions must be uint16")
    if int(batch.counts.sum()) != batch.actions.shape[0]:
        raise ValueError(
            f"counts sum to {int(batch.counts.sum())} but there are {batch.actions.shape[0]} actions"
        )
    if batch.rows and int(batch.counts.max()) > game.max_legal:
        raise ValueError(
            f"{int(batch.counts.max())} legal actions in one row, at most {game.max_legal} exist"
        )
    if batch.actions.shape[0] and int(batch.actions.max()) >= game.actions:
        raise ValueError(f"action {int(batch.actions.max())} is out of range, there are {game.actions}")


def buckets_up_to(buckets: Sequence[int], max_rows: int) -> tuple[int, ...]:
    """The buckets below `max_rows`, and `max_rows` itself as the last; all of them for 0."""
    if max_rows == 0:
        return tuple(buckets)
    return (*(bucket for bucket in buckets if bucket < max_rows), max_rows)


def bucket_for(rows: int, buckets: Sequence[int]) -> int:
    """The smallest bucket that holds `rows`. Raises ValueError if there is none."""
    for bucket in buckets:
        if rows <= bucket:
            return bucket
    raise ValueError(f"{rows} rows are more than the largest batch, {buckets[-1]}")


def choose_target(turns: Sequence[Mapping[int, float]]) -> int:
    """The smallest bucket that is good enough; the largest if none is.

    `turns`: seconds by bucket, measured several times. The shortest time of each bucket is used, because
    disturbances only make a batch slower. A straight line `a + c * rows` is fitted to these times: `a` is the
    fixed cost of a batch, and a bucket reaches the share `rows / (rows + a / c)` of the throughput of endless
    batches. A fit through all buckets varies less between measurements than the ratio of two of them.
    """
    rows = np.array(sorted(turns[0]), np.float64)
    seconds = np.array([min(turn[int(one)] for turn in turns) for one in rows])
    # Least squares of the relative errors; otherwise the largest bucket alone would determine the intercept.
    (once, each), *_ = np.linalg.lstsq(np.stack([1 / seconds, rows / seconds], axis=1), np.ones(len(rows)))
    enough = rows * (1 - GOOD_ENOUGH) * each >= GOOD_ENOUGH * once
    return int(rows[enough][0] if enough.any() else rows[-1])
