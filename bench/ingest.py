"""Games per second through decoding, verification under the rules, and a durable commit, in one process."""

from __future__ import annotations

import dataclasses
import os
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from azselfplay.games import get_game
from azselfplay.store.sqlite import Store
from bench.random_games import random_game
from protocol.messages import RelayGame, encode
from protocol.records import GameRecord, sha256, to_bytes
from protocol.settings import SearchSettings, SelfPlaySettings
from trainer.ingest import Committer, IngestTable, Job
from trainer.service import JOBS_PER_COMMIT
from trainer.verify import Verifier

GAME = "chess"
SIMULATIONS = 100
DISTINCT = 60
"""Number of games played; they are repeated under new uids."""
TOTAL = 6000


def relayed(records: list[GameRecord], total: int) -> list[tuple[RelayGame, bytes]]:
    """Return the messages that arrive at the trainer: `total` different records."""
    messages = []
    for number in range(total):
        record = dataclasses.replace(records[number % len(records)], uid=os.urandom(16))
        data = to_bytes(record)
        messages.append((RelayGame(b"peer", record.uid, sha256(data), "workers"), data))
    return messages


def ingest(folder: Path, messages: list[tuple[RelayGame, bytes]], max_plies: int) -> tuple[float, float]:
    """Measure the seconds from the first game to the last encoded acknowledgement, with threads as in
    `trainer.service`.

    Returns wall-clock time and processor time.
    """
    game = get_game(GAME)
    store = Store(folder / "games.db", game.name)
    settings = SelfPlaySettings(max_plies=max_plies, search=SearchSettings(simulations=SIMULATIONS))
    committer = Committer(Verifier(game, settings), store)
    table, acknowledged = IngestTable(), 0
    with ThreadPoolExecutor(1) as thread:
        thread.submit(committer.process, [], 0).result()
        started, cpu_before = time.perf_counter(), time.process_time()
        for first in range(0, len(messages), JOBS_PER_COMMIT):
            jobs = [table.on_game(*message) for message in messages[first : first + JOBS_PER_COMMIT]]
            taken = [job for job in jobs if isinstance(job, Job)]
            for acks in table.on_done(thread.submit(committer.process, taken, 0).result().done):
                acknowledged += len(acks.acks)
                encode(acks)
        seconds, cpu = time.perf_counter() - started, time.process_time() - cpu_before
    store.close()
    if acknowledged != len(messages) or committer.rejected:
        raise RuntimeError(
            f"{acknowledged} of {len(messages)} acknowledged, rejected {dict(committer.rejected)}"
        )
    return seconds, cpu


def run() -> dict[str, float]:
    """Return `games_per_s` by wall clock, `games_per_cpu_s` by processor time, and the size of the games."""
    game, rng = get_game(GAME), np.random.default_rng(1)
    records = [random_game(game, rng, simulations=SIMULATIONS) for _ in range(DISTINCT)]
    warm = relayed(records, 10)
    messages = relayed(records, TOTAL)
    plies = float(np.mean([record.plies for record in records]))
    size = float(np.mean([len(data) for _, data in messages]))
    with tempfile.TemporaryDirectory(dir=".") as folder:
        for name in ("warm", "timed"):
            (Path(folder) / name).mkdir()
        ingest(Path(folder) / "warm", warm, game.max_plies)
        seconds, cpu = ingest(Path(folder) / "timed", messages, game.max_plies)
        stored = (Path(folder) / "timed" / "games.db").stat().st_size / TOTAL
    figures = {
        "games_per_s": round(TOTAL / seconds, 1),
        "games_per_cpu_s": round(TOTAL / cpu, 1),
        "mean_plies": round(plies, 1),
        "record_bytes": round(size),
        "stored_bytes": round(stored),
    }
    print(
        f"{GAME}, random games of {plies:.0f} plies, {size / 1024:.1f} kB each, {stored / 1024:.1f} kB stored"
    )
    print(
        f"decoded, verified, committed, acknowledged: {figures['games_per_s']} games/s, "
        f"{figures['games_per_cpu_s']} games per second of processor time"
    )
    return figures
