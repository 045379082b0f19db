"""Size of game records by the ply, and the time to write and to read one, on games played with a uniform net.

A uniform net spreads visits over more actions than a trained one, so these sizes are an upper estimate.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import numpy as np
import zstandard

from client.self_play import play_game
from games import get_game
from protocol.records import GameRecord, from_bytes, to_bytes
from protocol.settings import SearchSettings, SelfPlaySettings
from search.evaluator import UniformEvaluator
from search.forest import Forest
from search.pool import SearchPool
from search.settings import resolve

SAMPLES = (("tic_tac_toe", 100, 20), ("connect_four", 200, 20), ("chess", 200, 4))
"""Game, simulations per move, games."""
REPEATS = 200


def run() -> dict[str, float | int]:
    """Bytes by the ply, raw and compressed as the store does (zstd 3), and microseconds a record."""
    figures: dict[str, float | int] = {}
    for name, simulations, games in SAMPLES:
        for key, figure in _measure(asyncio.run(_play(name, simulations, games))).items():
            figures[f"{name}_{key}"] = figure
            print(f"{name:14}{key:22}{figure:10.1f}", flush=True)
    return figures


async def _play(name: str, simulations: int, games: int) -> list[GameRecord]:
    game = get_game(name)
    settings = resolve(SelfPlaySettings(search=SearchSettings(simulations=simulations)), game)
    pool = SearchPool(Forest(game, settings), UniformEvaluator())
    return [await play_game(pool, np.random.default_rng(number)) for number in range(games)]


def _measure(records: list[GameRecord]) -> dict[str, float]:
    data = [to_bytes(record) for record in records]
    plies = sum(record.plies for record in records)
    compressor = zstandard.ZstdCompressor(level=3)
    return {
        "plies_a_game": plies / len(records),
        "visited_a_ply": sum(len(record.visits) for record in records) / plies,
        "bytes_a_game": sum(map(len, data)) / len(records),
        "bytes_a_ply": sum(map(len, data)) / plies,
        "zstd_bytes_a_ply": sum(len(compressor.compress(item)) for item in data) / plies,
        "write_us": _microseconds(lambda: to_bytes(records[0])),
        "read_us": _microseconds(lambda: from_bytes(data[0])),
    }


def _microseconds(call: Callable[[], object]) -> float:
    begun = time.perf_counter()
    for _ in range(REPEATS):
        call()
    return (time.perf_counter() - begun) / REPEATS * 1e6
