"""Positions per second that a network answers, for each batch size, with real chess positions.

Sizes are measured in turns. The figures are wall-clock time and depend on other work on the machine, so
compare only figures that were measured side by side. `cpu_us` is the CPU time of one position in the cheapest
batch size, which hardly depends on other processes.
"""

from __future__ import annotations

import time

import numpy as np
import torch

from azselfplay.games import get_game
from azselfplay.games.spec import NO_ROOT
from bench.turns import TURNS, Spread
from net.architectures.network import build
from net.architectures.registry import named
from net.inference import Inference
from net.weights import WeightsMeta
from protocol.frames import LeafBatch

GAME = get_game("chess")
PRESETS = ("tiny", "small")
BUCKETS = (8, 16, 32, 64, 128, 256, 512)
SECONDS_PER_BUCKET = 0.2
"""Seconds of a turn for one batch size."""
GAME_PLIES = 120


def chess_like_batch(rows: int, seed: int = 0) -> LeafBatch:
    """Return positions from random games, always the same for a seed."""
    rng = np.random.default_rng(seed)
    features = np.zeros((rows, GAME.feature_words(GAME.history)), dtype=np.uint64)
    positions = np.zeros((GAME_PLIES, GAME.state_words), dtype=np.uint64)
    legal = np.zeros(GAME.max_legal, dtype=np.uint16)
    counts, actions = np.zeros(rows, dtype=np.uint16), []
    row = 0
    while row < rows:
        GAME.rules.start(positions[0])
        for n in range(1, GAME_PLIES):
            count = GAME.rules.legal_actions(positions, n, legal)
            if row == rows or GAME.rules.end_reason(positions, n, count, NO_ROOT):
                break
            GAME.rules.encode(positions, n, GAME.history, features[row])
            counts[row] = count
            actions.append(legal[:count].copy())
            row += 1
            GAME.rules.play(positions[n - 1], int(rng.choice(legal[:count])), positions[n])
    order = rng.permutation(rows)
    return LeafBatch(features[order], counts[order], np.concatenate([actions[i] for i in order]))


def measure(inference: Inference, batch: LeafBatch) -> tuple[float, float]:
    """Return positions per second, and microseconds of CPU time per position."""
    inference.run(batch)
    begin, begin_cpu, runs = time.perf_counter(), time.process_time(), 0
    while time.perf_counter() < begin + SECONDS_PER_BUCKET:
        inference.run(batch)
        runs += 1
    seconds, cpu_seconds = time.perf_counter() - begin, time.process_time() - begin_cpu
    rows = runs * batch.rows
    return rows / seconds, cpu_seconds / rows * 1e6


def run() -> dict[str, float | int]:
    """Print a table for each preset. In the result, `positions_per_s` is the best rate of the small
    network."""
    figures: dict[str, float | int] = {}
    for preset in PRESETS:
        torch.manual_seed(0)
        network = build(named(preset), GAME, GAME.history).eval()
        begin = time.perf_counter()
        inference = Inference(GAME, GAME.history, "cpu")
        inference.use(network, WeightsMeta(GAME.name, GAME.history, named(preset)))
        figures[f"{preset}_load_s"] = round(time.perf_counter() - begin, 2)
        figures[f"{preset}_target_rows"] = inference.target_rows
        print(f"{preset}: {inference.device_name}, target {inference.target_rows} rows")
        print(f"  {'rows':>5} {'positions/s, median (range)':>28} {'CPU us each':>12}")
        batches = {rows: chess_like_batch(rows) for rows in BUCKETS}
        turns = [{rows: measure(inference, batch) for rows, batch in batches.items()} for _ in range(TURNS)]
        rates = {rows: Spread.of([turn[rows][0] for turn in turns]) for rows in BUCKETS}
        cpus = {rows: Spread.of([turn[rows][1] for turn in turns]).median for rows in BUCKETS}
        for rows in BUCKETS:
            print(f"  {rows:>5} {rates[rows].text():>28} {cpus[rows]:>12.1f}")
            figures[f"{preset}_{rows}"] = round(rates[rows].median)
        figures[f"{preset}_best"] = round(max(rate.median for rate in rates.values()))
        figures[f"{preset}_cpu_us"] = round(min(cpus.values()), 1)
        inference.close()
    return {**figures, "positions_per_s": figures["small_best"]}
