"""Does a run that is killed come to the same weights? All processes, SIGKILL, in rounds (decision 0014).

Runs azserver (with its worker and evaluator) and the trainer on tic-tac-toe twice for some rounds: once
straight on, once with everything killed in the middle of a round, more than once. Compares the weights files.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from net.weights import read_meta
from runtime.ports import find_base_port

ROUNDS, ROUND_GAMES = 6, 40
KILLS = ((1, 5), (2, 25), (4, 40))
"""All processes are killed when this many games of this round are stored: amid playing, and amid training."""
PATIENCE = 300.0
"""Seconds for a round, starts of processes included."""


class Processes:
    """azserver and the trainer of one run in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._port = find_base_port(7400)
        self._running: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        both = ("--runs", str(self.folder), "--run", "r")
        self._start(
            "server.main", *both, "--game", "tic_tac_toe", "--net", "1x16", "--gpus", "cpu", "--workers", "1",
            "--cpu-threads", "1", "--port", str(self._port), "--self-play.search.simulations", "16",
            "--self-play.round-games", str(ROUND_GAMES), "--self-play.seed", "11",
        )  # fmt: skip
        self._start(
            "trainer", *both, "--server", f"127.0.0.1:{self._port}", "--device", "cpu", "--cpu-threads", "1",
            "--optimizer.batch", "32", "--window.min-positions", "200", "--window.positions", "1000",
            "--optimizer.ema", "0.9",
            "--publishing.checkpoint-seconds", "0.2", "--publishing.keep-checkpoints", "2",
        )  # fmt: skip

    def _start(self, module: str, *arguments: str) -> None:
        with (self.folder / f"{module}.log").open("ab") as log:
            command = [sys.executable, "-m", module, *arguments]
            self._running.append(subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True))

    def end(self, number: signal.Signals) -> None:
        """Send the signal to both and wait; their children die with them."""
        for process in self._running:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, number)
        for process in self._running:
            process.wait()
        self._running.clear()

    def hashes(self) -> dict[int, str]:
        """Hashes of the weights files, by version."""
        found = {}
        for path in (self.folder / "r" / "weights").glob("*.safetensors"):
            data = path.read_bytes()
            found[read_meta(data).version] = hashlib.sha256(data).hexdigest()
        return found

    def games(self) -> int:
        """Number of games in the store."""
        with contextlib.closing(sqlite3.connect(f"file:{self.folder}/r/games.db?mode=ro", uri=True)) as store:
            return int(store.execute("SELECT count(*) FROM games").fetchone()[0])

    def until(self, done: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not done():
            if time.monotonic() > deadline or any(process.poll() is not None for process in self._running):
                raise RuntimeError(f"a process ended or hangs, see the logs in {self.folder}")
            time.sleep(0.05)


def _play(folder: Path, kills: tuple[tuple[int, int], ...]) -> dict[int, str]:
    folder.mkdir()
    run = Processes(folder)
    run.start()
    try:
        for version, games in kills:
            run.until(lambda version=version: version in run.hashes())  # type: ignore[misc]
            enough = version * ROUND_GAMES + games
            run.until(lambda enough=enough: run.games() >= enough)  # type: ignore[misc]
            run.end(signal.SIGKILL)
            played = run.games() - version * ROUND_GAMES
            print(f"killed everything in round {version}, {played} of {ROUND_GAMES} games stored", flush=True)
            run.start()
        run.until(lambda: ROUNDS in run.hashes())
    finally:
        run.end(signal.SIGKILL)
    return {version: digest for version, digest in run.hashes().items() if version <= ROUNDS}


def run() -> dict[str, int]:
    """Figures: versions compared, how many are equal (all, or the bench fails)."""
    with tempfile.TemporaryDirectory(prefix="az-resume-") as name:
        straight = _play(Path(name) / "straight", ())
        killed = _play(Path(name) / "killed", KILLS)
    equal = sum(digest == killed.get(version) for version, digest in straight.items())
    for version, digest in sorted(straight.items()):
        print(f"version {version}: {digest[:16]} and {killed.get(version, 'missing')[:16]}")
    return {"versions": len(straight), "equal": equal, "kills": len(KILLS)}
