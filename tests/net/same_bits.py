"""`python same_bits.py DTYPE [DTYPE]`: prints, one a line, every network whose answers depend on the batch.

A process of its own for each limit on instructions: libraries read them when they are loaded.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from every_game import EVERY_GAME
from net_shapes import random_play
from test_inference import trained_like

from games import get_game
from games.spec import Game
from net.architectures.registry import named, preset_names
from net.architectures.sizes import Architecture
from net.batches import Batch
from net.cpu_engine import CpuEngine, bfloat16_allowed
from net.engines import Engine
from net.folding import fold

PRESETS = preset_names()
MORE = {"chess": (), "connect_four": ("3x48", "4x64tanh"), "tic_tac_toe": ("1x8",)}
"""Sizes that recipes and tests use."""
LARGE = ("medium", "alphazero", "tf-small", "tf-medium")
"""Tried with one block: all have the same shapes."""
AS_MODULES = ("tiny", "small")
"""Tried by the way of networks without kernels of their own as well."""
MOST_ROWS = 64
MANY_CELLS = 64
FEW_ROWS = (*range(1, 13), 16, 33)
"""All that are tried of LARGE networks, and of games with more than MANY_CELLS."""


def of_rows(batch: Batch, rows: Sequence[int]) -> Batch:
    """The positions `rows` of a batch, in that order."""
    ends = np.cumsum(batch.counts, dtype=np.int64)
    lists = [batch.actions[ends[row] - batch.counts[row] : ends[row]] for row in rows]
    return Batch(batch.features[rows], batch.counts[rows], np.concatenate(lists))


def answers(engine: Engine, batch: Batch) -> list[bytes]:
    """All bits of the answer to each position."""
    engine.start(batch, 0)
    priors, wdl = engine.finish(0)
    ends = np.cumsum(batch.counts, dtype=np.int64)
    return [
        priors[end - count : end].tobytes() + one.tobytes()
        for end, count, one in zip(ends, batch.counts, wdl, strict=True)
    ]


def sizes_that_differ(one: Engine, other: Engine, batch: Batch, sizes: Sequence[int]) -> list[int]:
    """Numbers of rows at which `other` answers some position in other bits than `one` answers it alone.

    Each time the positions are others, in other rows and beside others.
    """
    alone = [answers(one, of_rows(batch, [row]))[0] for row in range(batch.rows)]
    rng = np.random.default_rng(0)
    differ = []
    for size in sizes:
        rows = rng.permutation(batch.rows)[:size]
        if answers(other, of_rows(batch, rows)) != [alone[row] for row in rows]:
            differ.append(size)
    return differ


def feasible(name: str, game: Game) -> tuple[Architecture, Sequence[int]]:
    """An architecture cut to what a test has time for, and numbers of rows to try."""
    sizes, is_large = named(name), name in LARGE
    rows = FEW_ROWS if is_large or game.cells > MANY_CELLS else range(1, MOST_ROWS + 1)
    return dataclasses.replace(sizes, blocks=1) if is_large else sizes, rows


def failures(dtype: torch.dtype) -> Iterator[str]:
    for game in map(get_game, EVERY_GAME):
        batch = random_play(game, max(FEW_ROWS) if game.cells > MANY_CELLS else MOST_ROWS)
        tried = [(name, True) for name in (*PRESETS, *MORE.get(game.name, ()))]
        for name, own_kernels in (*tried, *((name, False) for name in AS_MODULES)):
            sizes, rows = feasible(name, game)
            folded = fold(trained_like(sizes, game, game.history))
            one, other = (
                CpuEngine(folded, game, game.history, dtype, threads=threads, own_kernels=own_kernels)
                for threads in (1, 2)
            )
            differ = sizes_that_differ(one, other, batch, rows)
            if differ:
                yield f"{game.name} {name} {dtype} {own_kernels=}: other bits at {differ} rows"
            one.close()
            other.close()


def main() -> None:
    for name in sys.argv[1:]:
        if name == "bfloat16" and not bfloat16_allowed():
            continue  # nobody computes in it on such a machine
        for failure in failures(getattr(torch, name)):
            print(failure, flush=True)


if __name__ == "__main__":
    main()
