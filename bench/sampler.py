"""Training samples per second from a replay window of twenty million positions, on one core."""

from __future__ import annotations

import dataclasses
import resource
import time

import numpy as np

from azselfplay.games import get_game
from bench.random_games import random_game
from protocol.records import PER_PLY
from trainer.sampler import Sampler
from trainer.window import Window

GAME = "chess"
POSITIONS = 20_000_000
DISTINCT = 200
BATCH = 4096
SECONDS = 5.0
"""Processor time of the measurement."""


def filled_window() -> Window:
    """Return a full window: some real games repeated, each cut at a random length."""
    game, rng = get_game(GAME), np.random.default_rng(1)
    records = [random_game(game, rng, simulations=100) for _ in range(DISTINCT)]
    window = Window(game, POSITIONS, visited_per_position=22.0)
    while window.positions < POSITIONS - game.max_plies:
        record = records[rng.integers(len(records))]
        plies = int(rng.integers(record.plies // 2, record.plies)) + 1
        entries = int(record.visited[:plies].sum(dtype=np.int64))
        cut = {name: getattr(record, name)[:plies] for name in PER_PLY}
        visited = {name: getattr(record, name)[:entries] for name in ("visit_actions", "visits")}
        window.add(dataclasses.replace(record, **cut, **visited))
    return window


def run() -> dict[str, float]:
    """Measure; return `samples_per_s` and `bytes_per_position`."""
    started = time.perf_counter()
    window = filled_window()
    mean_plies = window.positions / window.games
    print(
        f"window: {window.positions:,} positions of {GAME}, games of {mean_plies:.0f} plies, filled in "
        f"{time.perf_counter() - started:.0f} s"
    )
    game = get_game(GAME)
    sampler, rng = Sampler(game, game.history), np.random.default_rng(2)
    sampler.sample(window, rng, 10)
    # Measure the processor time of this thread, which other work on the machine hardly affects.
    count, started = 0, time.thread_time()
    while time.thread_time() - started < SECONDS:
        sampler.sample(window, rng, BATCH)
        count += BATCH
    rate = count / (time.thread_time() - started)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
    print(f"{rate:,.0f} samples/s on one core, {window.bytes_per_position:.0f} bytes a position")
    print(f"process: {memory:.2f} GiB")
    return {
        "samples_per_s": round(rate),
        "bytes_per_position": round(window.bytes_per_position, 1),
        "process_gib": round(memory, 2),
        "mean_plies": round(mean_plies, 1),
    }
