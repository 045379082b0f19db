"""Batches of positions for a network, and how large they should be.

On CUDA a network of planes runs with a few fixed numbers of rows (buckets), so that kernels and graphs are
prepared once. `Inference` measures how long each bucket takes with made-up positions, and `choose_target`
finds the smallest bucket whose time per row is nearly that of endless batches.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import numpy as np

from azselfplay.games.spec import Game
from net.planes import PlaneShape
from protocol.frames import LeafBatch

CPU_BUCKETS = (1, 4, 8, 16, 32, 64, 128, 256, 512)
CUDA_BUCKETS = (16, 64, 128, 256, 512, 1024, 2048, 4096)
"""On CUDA, the numbers of rows that a network of planes runs with, so that kernels and graphs are prepared
once; on a CPU, those that are tried to find the target."""
CPU_TARGET = 64
CUDA_TARGET = 512
"""Default of `target_rows` if nothing was measured."""
GOOD_ENOUGH = 0.93
"""A bucket is large enough when it reaches this share of the throughput of endless batches."""
CPU_LARGEST_TARGET = 128
"""Largest target on a CPU. Networks that would gain from more rows are so small that workers and front limit
the rate. A larger target also means more games in flight (five times the target), so a new run's first games
end later."""
_PROBE_FILL = 28
"""One in this many cells is set in the made-up positions of a measurement: about as in chess."""


def buckets_up_to(buckets: Sequence[int], max_rows: int) -> tuple[int, ...]:
    """Return the buckets below `max_rows`, and `max_rows` itself as the last one; all buckets for 0."""
    if max_rows == 0:
        return tuple(buckets)
    return (*(bucket for bucket in buckets if bucket < max_rows), max_rows)


# ---- The size worth collecting ---------------------------------------------------------------------


def choose_target(turns: Sequence[Mapping[int, float]]) -> int:
    """Return the smallest bucket that is good enough (`GOOD_ENOUGH`); the largest if none is.

    `turns`: seconds by bucket, measured several times. The shortest time of each bucket is used, because
    disturbances only make a batch slower. A straight line `a + c * rows` is fitted to these times: `a` is the
    fixed cost of a batch, and a bucket reaches the share `rows / (rows + a / c)` of the throughput of endless
    batches. A fit through all buckets varies less between measurements than the ratio of two buckets.
    """
    rows = np.array(sorted(turns[0]), np.float64)
    seconds = np.array([min(turn[int(one)] for turn in turns) for one in rows])
    # Least squares of the relative errors; with absolute ones the largest bucket alone would fix the
    # intercept.
    (once, each), *_ = np.linalg.lstsq(np.stack([1 / seconds, rows / seconds], axis=1), np.ones(len(rows)))
    enough = rows * (1 - GOOD_ENOUGH) * each >= GOOD_ENOUGH * once
    return int(rows[enough][0] if enough.any() else rows[-1])


def made_up_batch(game: Game, history: int, rows: int) -> LeafBatch:
    """Return positions for timing only: no game has them, but they are about as full as real ones. Always the
    same."""
    # Seeded with the game's name, so that the same game is measured with the same positions.
    rng = np.random.default_rng(int.from_bytes(hashlib.sha256(game.name.encode()).digest()[:4]))
    shape = PlaneShape.of(game, history)
    bits = rng.random((rows, shape.bit_words, 64)) < 1 / _PROBE_FILL
    masks = np.tile(shape.masks(), shape.bit_planes)
    words = np.packbits(bits, axis=2, bitorder="little").view(np.uint64)[:, :, 0] & masks
    scalars = rng.random((rows, shape.scalar_planes), dtype=np.float32).view(np.uint32).astype(np.uint64)
    codes = np.zeros((rows, 0), np.uint64)
    if (coded := game.coded_cells) is not None:
        # Half of the cells have a code other than 0.
        padded = np.zeros((rows, history, coded.words(game.cells), coded.cells_a_word), np.uint64)
        cells = padded.reshape(rows, history, -1)[:, :, : game.cells]
        cells[:] = rng.integers(1, len(coded.planes_of), cells.shape, np.uint8)
        cells *= rng.random(cells.shape) < 0.5
        padded <<= np.arange(coded.cells_a_word, dtype=np.uint64) * np.uint64(coded.bits)
        codes = np.bitwise_or.reduce(padded, axis=3).reshape(rows, -1)
    packed_words = shape.feature_words - shape.end_of_codes - shape.scalar_planes
    packed = rng.integers(0, 1 << 64, (rows, packed_words), np.uint64)
    legal = min(game.max_legal, max(1, round(game.mean_legal)))
    one_row = np.sort(rng.permutation(game.actions)[:legal]).astype(np.uint16)
    return LeafBatch(
        np.ascontiguousarray(np.concatenate([words, codes, packed, scalars], axis=1)),
        np.full(rows, legal, dtype=np.uint16),
        np.tile(one_row, rows),
    )
