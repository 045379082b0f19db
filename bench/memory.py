"""Bytes of a leaf on the wire, and the memory of a worker with 512 games of 800 simulations.

The worker's games run as in self-play (`client.self_play.play_game`), with a network that costs nothing,
so that an hour here is many hours of a real run. `AZ_BENCH_SECONDS` sets how long (default 60).
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from games import get_game
from protocol.settings import SearchSettings, SelfPlaySettings
from search.evaluator import UniformEvaluator
from search.forest import Forest
from search.pool import SearchPool
from search.settings import resolve
from search.tree import tree_for

GAMES = 512
SIMULATIONS = 800
SAMPLES = 12
"""Readings of the memory in a run."""


def resident_mb() -> float:
    """Resident memory of this process, MB (10^6 bytes)."""
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE") / 1e6


async def play_games(seconds: float) -> None:
    """Play, and regularly print `seconds leaves games MB`."""
    from client.self_play import play_game

    game = get_game("chess")
    settings = resolve(SelfPlaySettings(search=SearchSettings(simulations=SIMULATIONS)), game)
    pool = SearchPool(Forest(game, settings, GAMES), UniformEvaluator())
    began = time.monotonic()
    finished = 0

    async def play_on(number: int) -> None:
        nonlocal finished
        while time.monotonic() < began + seconds:
            await play_game(pool, np.random.default_rng(number + 1000 * finished))
            finished += 1

    async def report() -> None:
        for sample in range(1, SAMPLES + 1):
            await asyncio.sleep(began + seconds * sample / SAMPLES - time.monotonic())
            passed = time.monotonic() - began
            print(f"{passed:.0f} {pool.leaves} {finished} {resident_mb():.0f}", flush=True)

    players = [asyncio.create_task(play_on(number)) for number in range(GAMES)]
    await report()
    for player in players:
        player.cancel()


def wire_bytes_per_leaf() -> float:
    """Features, number of actions and actions of a chess leaf with 119 planes, mean over a random game."""
    game = get_game("chess")
    tree = tree_for(game, resolve(SelfPlaySettings(), game), np.random.default_rng(0))
    tree.reset(game.notation.state_from_text(""))
    rng, sizes = np.random.default_rng(0), []
    while tree.end_reason() is None:
        leaf = tree.root_leaf()
        sizes.append(leaf.features.nbytes + 2 + leaf.actions.nbytes)
        tree.advance(int(rng.choice(tree.legal_actions())))
    return float(np.mean(sizes))


def run() -> dict[str, float]:
    seconds = float(os.environ.get("AZ_BENCH_SECONDS", "60"))
    command = [sys.executable, "-m", "bench.memory", str(seconds)]
    print(f"{'s':>7} {'leaves':>13} {'games':>7} {'MB':>7}   {GAMES} games x {SIMULATIONS} simulations")
    readings = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        for line in child.stdout:
            readings.append([float(word) for word in line.split()])
            passed, leaves, games, megabytes = readings[-1]
            print(f"{passed:7.0f} {leaves:13,.0f} {games:7.0f} {megabytes:7.0f}", flush=True)
    half = readings[len(readings) // 2 :]
    return {
        "bytes_per_leaf": wire_bytes_per_leaf(),
        "worker_rss_mb": max(reading[3] for reading in readings),
        "growth_mb_second_half": half[-1][3] - half[0][3],
        "seconds": seconds,
        "leaves": readings[-1][1],
    }


if __name__ == "__main__":
    import uvloop

    uvloop.run(play_games(float(sys.argv[1])))
