"""Seconds to fill the window from the store at a start: every game unpacked, checked and taken in."""

from __future__ import annotations

import dataclasses
import os
import tempfile
import time
from pathlib import Path

import numpy as np

from bench.random_games import random_game
from games import get_game
from protocol.records import sha256, to_bytes
from store.reader import StoreReader
from store.sqlite import Entry, Store
from trainer.config import SampleSettings, TrainerConfig, WindowSettings
from trainer.training_loop import TrainingLoop

SIZES = {"connect_four": 20_000, "chess": 2_000}
"""Games stored, by game."""
DISTINCT = 40
"""Games played; they are repeated under new uids."""
TURNS = 3


def stored(folder: Path, name: str, count: int) -> tuple[Path, int]:
    """A store of random games, and how many positions they have."""
    game, rng = get_game(name), np.random.default_rng(1)
    records = [random_game(game, rng, simulations=100) for _ in range(DISTINCT)]
    store, entries, positions = Store(folder / "games.db", name), [], 0
    for number in range(count):
        record = dataclasses.replace(records[number % DISTINCT], uid=os.urandom(16))
        data, positions = to_bytes(record), positions + record.plies
        entries.append(
            Entry(
                record.uid, sha256(data), "workers", record.plies, record.outcome, record.reason, 0, 0, data
            )
        )  # fmt: skip
        if len(entries) == 1000 or number == count - 1:
            store.commit(entries)
            entries = []
    store.close()
    return folder / "games.db", positions


def seconds_to_fill(path: Path, name: str, positions: int, count: int) -> tuple[float, float]:
    """(by the clock, of processor time)"""
    game = get_game(name)
    window, samples = WindowSettings(positions + game.max_plies), SampleSettings(held_out=0.0)
    config = TrainerConfig(window=window, samples=samples, device="cpu")
    with tempfile.TemporaryDirectory() as folder:
        training = TrainingLoop(config, game, game.history, "tiny", Path(folder))
    reader = StoreReader(path)
    clock, cpu = time.perf_counter(), time.process_time()
    training.fill(reader, count)
    spent = time.perf_counter() - clock, time.process_time() - cpu
    reader.close()
    if training.window.games != count:
        raise RuntimeError(f"{training.window.games} of {count} games are in the window")
    return spent


def run() -> dict[str, float]:
    """`NAME_games_per_s` of processor time: the median of TURNS."""
    figures = {}
    for name, count in SIZES.items():
        with tempfile.TemporaryDirectory(dir=".") as folder:
            path, positions = stored(Path(folder), name, count)
            turns = [seconds_to_fill(path, name, positions, count) for _ in range(TURNS)]
        clock, cpu = (sorted(column)[TURNS // 2] for column in zip(*turns, strict=True))
        figures[f"{name}_games_per_s"] = round(count / cpu, 1)
        print(
            f"{name}: {count:,} games, {positions:,} positions: {clock:.2f} s by the clock, {cpu:.2f} s of "
            f"processor time, {count / cpu:,.0f} games a second of it"
        )
    return figures
