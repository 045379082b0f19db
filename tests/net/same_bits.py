"""`python same_bits.py DTYPE [DTYPE]` prints, one per line, every network whose answers depend on the batch.

It compares every game and preset over 1 to 64 rows. Libraries read their limits on instructions when they are
loaded, so `networks_that_differ` starts a process for each limit.
"""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from every_game import EVERY_GAME
from net_shapes import random_play
from test_inference import trained_like

from games import get_game
from games.spec import Game
from net.architectures.registry import is_sparse, named, preset_names
from net.architectures.sizes import Architecture
from net.batches import Batch, bucket_for
from net.cpu_engine import CpuEngine, bfloat16_allowed, cut
from net.engines import Engine
from net.folding import fold

PRESETS = tuple(name for name in preset_names() if not is_sparse(name))
MORE = {"chess": (), "connect_four": ("3x48", "4x64tanh"), "tic_tac_toe": ("1x8",)}
"""Sizes that recipes and tests use, besides the presets."""
LARGE = ("medium", "alphazero", "tf-small", "tf-medium")
"""Tested with one block, because all blocks have the same shapes."""
AS_MODULES = ("tiny", "small")
"""Tested with one block also in the way in which networks without kernels of their own run."""
MOST_ROWS = 64
MANY_CELLS = 64
FEW_ROWS = (*range(1, 13), 16, 33)
"""The numbers of rows for LARGE networks, and for games with more than MANY_CELLS."""
THREADS = 2
"""Threads of the engine that answers many rows at once; the one that answers them singly has one thread."""


def networks_that_differ(numbers: str, limits: Mapping[str, str]) -> str:
    """Return what this program prints under `limits` (environment variables). Raises RuntimeError if it
    fails."""
    here = Path(__file__).resolve()
    folders = map(str, (here.parents[2], here.parents[1], here.parents[1] / "games"))
    env = os.environ | limits | {"PYTHONPATH": os.pathsep.join(folders)}
    command = [sys.executable, str(here), *numbers.split()]
    found = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    if found.returncode:
        raise RuntimeError(found.stderr)
    return found.stdout


def of_rows(batch: Batch, rows: Sequence[int]) -> Batch:
    """Return the positions `rows` of a batch, in that order."""
    ends = np.cumsum(batch.counts, dtype=np.int64)
    lists = [batch.actions[ends[row] - batch.counts[row] : ends[row]] for row in rows]
    return Batch(batch.features[rows], batch.counts[rows], np.concatenate(lists))


def answers(engine: Engine, batch: Batch) -> list[bytes]:
    """Return all bits of the answer to each position."""
    engine.start(batch, 0)
    priors, wdl = engine.finish(0)
    ends = np.cumsum(batch.counts, dtype=np.int64)
    return [
        priors[end - count : end].tobytes() + one.tobytes()
        for end, count, one in zip(ends, batch.counts, wdl, strict=True)
    ]


def sizes_that_differ(one: Engine, other: Engine, batch: Batch, sizes: Sequence[int]) -> list[int]:
    """Return the numbers of rows at which the bits of some answer of `other` differ from those of `one`,
    which answers each position alone.

    Each number is tested with other positions, in other rows and with other neighbours.
    """
    alone = [answers(one, of_rows(batch, [row]))[0] for row in range(batch.rows)]
    rng = np.random.default_rng(0)
    differ = []
    for size in sizes:
        rows = rng.permutation(batch.rows)[:size]
        if answers(other, of_rows(batch, rows)) != [alone[row] for row in rows]:
            differ.append(size)
    return differ


def one_of_each_way(rows: Sequence[int], sizes: Sequence[int]) -> list[int]:
    """Return, of those numbers of rows that an engine cuts and pads to the same `sizes`, the smallest and the
    largest.

    To the libraries they are all the same call.
    """
    ways: dict[tuple[int, ...], list[int]] = {}
    for count in rows:
        way = tuple(bucket_for(stop - start, sizes) for start, stop in cut(count, sizes, THREADS))
        ways.setdefault(way, []).append(count)
    return sorted({chosen for alike in ways.values() for chosen in (min(alike), max(alike))})


def networks(game: Game) -> Iterator[tuple[str, Architecture, bool]]:
    """Yield names, sizes reduced to what a test has time for, and whether the network runs by our own
    kernels."""
    for name in (*PRESETS, *MORE.get(game.name, ())):
        sizes = named(name)
        yield name, dataclasses.replace(sizes, blocks=1) if name in LARGE else sizes, True
    for name in AS_MODULES:
        yield name, dataclasses.replace(named(name), blocks=1), False


def failures(dtype: torch.dtype) -> Iterator[str]:
    for game in map(get_game, EVERY_GAME):
        batch = random_play(game, max(FEW_ROWS) if game.cells > MANY_CELLS else MOST_ROWS)
        for name, sizes, own_kernels in networks(game):
            few = name in LARGE or game.cells > MANY_CELLS
            folded = fold(trained_like(sizes, game, game.history))
            one, other = (
                CpuEngine(folded, game, game.history, dtype, threads=threads, own_kernels=own_kernels)
                for threads in (1, THREADS)
            )
            rows = one_of_each_way(FEW_ROWS if few else range(1, MOST_ROWS + 1), other.sizes)
            differ = sizes_that_differ(one, other, batch, rows)
            if differ:
                yield f"{game.name} {name} {dtype} {own_kernels=}: other bits at {differ} rows"
            one.close()
            other.close()


def main() -> None:
    for name in sys.argv[1:]:
        if name == "bfloat16" and not bfloat16_allowed():
            continue  # no machine of this kind computes in it
        for failure in failures(getattr(torch, name)):
            print(failure, flush=True)


if __name__ == "__main__":
    main()
