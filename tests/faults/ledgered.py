"""azserver, azclient and trainer with keys, and a ledger of azclient's games that is kept from outside.

The counts come from the disks: azclient's spool, as the kernel reports it, the trainer's store, and the
weights that azserver says are in use.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import time
from base64 import b64decode
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from keyed_parts import NAMES, KeyedParts
from parts import RUN
from spool_watch import SpoolWatch

PATIENCE = 300.0
"""Seconds within which play, training and new weights must be back, on a busy machine."""


@dataclass(frozen=True)
class Progress:
    """What has been done so far."""

    games: int
    """azclient's games in the store."""
    steps: int
    """Training steps."""
    version: int
    """Version of the newest weights in use that azclient has played with."""


class LedgeredParts(KeyedParts):
    """Enter it to start all three parts and wait until they play, train and change weights."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.spool = SpoolWatch(folder / "spool")

    def stop(self) -> None:
        super().stop()
        self.spool.close()

    def wait_for_play(self) -> None:
        self.wait(lambda: self.progress().version >= 2, "games, steps and new weights at the start")

    # ---- what is seen ------------------------------------------------------------------------

    def progress(self) -> Progress:
        self.spool.look()
        database = f"file:{self.trainers}/{RUN}/games.db?mode=ro"
        try:
            with closing(sqlite3.connect(database, uri=True)) as store:
                games, version = store.execute("SELECT count(*), max(version_max) FROM games").fetchone()
        except sqlite3.OperationalError:  # the store does not exist yet
            return Progress(0, 0, 0)
        return Progress(games, int(self.metrics("trainer").get("az_train_steps_total", 0)), version or 0)

    def advance(self, meaning: str) -> tuple[float, float]:
        """Wait for ten more games, for more steps, and for games of newer weights. Return the seconds until
        the first game, and until all of it."""
        begun, before, first = time.monotonic(), self.progress(), 0.0

        def is_done() -> bool:
            nonlocal first
            now = self.progress()
            if now.games > before.games:
                first = first or time.monotonic() - begun
            more = now.games >= before.games + 10 and now.steps > before.steps
            return more and now.version > before.version

        self.wait(is_done, f"games, steps and new weights {meaning}")
        return first, time.monotonic() - begun

    def wait(self, what: Callable[[], bool], meaning: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while not what():
            assert time.monotonic() < deadline, f"in vain: {meaning}: {self.progress()}\n{self.logs()}"
            time.sleep(0.2)

    def logs(self) -> str:
        return "\n".join(f"{name}:\n{self.log(name)}" for name in NAMES)

    # ---- promises ----------------------------------------------------------------------------

    def check(self) -> tuple[int, int]:
        """End azclient, so that nothing moves any more, and check every promise. Return the number of games
        that it finished, and how many of them were acknowledged as stored. Raises AssertionError if a promise
        was broken."""
        self.end("client.main")
        self.spool.look()
        waiting = {path.stem for path in (self.folder / "spool").glob("*/worker-*/*.game")}
        with closing(sqlite3.connect(f"file:{self.trainers}/{RUN}/games.db?mode=ro", uri=True)) as store:
            stored = [uid.hex() for (uid,) in store.execute("SELECT uid FROM games")]
        lost = self.spool.acknowledged - set(stored)
        assert not lost, f"P1: {len(lost)} acknowledged games are not stored"
        nowhere = self.spool.finished - set(stored) - waiting
        assert not nowhere, f"P1: {len(nowhere)} finished games are nowhere"
        assert len(stored) == len(set(stored)), "P2: a game is stored twice"
        self.wait(lambda: self._counted() == len(stored), f"P2: the trainer to count {len(stored)} games")
        foreign = set(stored) - self.spool.finished
        assert not foreign, f"P3: {len(foreign)} stored games were not played: {sorted(foreign)[:5]}"
        self._check_weights()
        return len(self.spool.finished), len(self.spool.acknowledged)

    def _counted(self) -> float:
        """Return the number of games that the trainer reports; its metrics are at most a second old."""
        told = self.metrics("trainer").items()
        return sum(value for name, value in told if name.startswith("az_games{"))

    def _check_weights(self) -> None:
        """P6: the file that azserver says is in use has the hash that azserver says."""
        folder = self.folder / "runs" / RUN / "weights"
        about = json.loads((folder / "current.json").read_text())
        held = {hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.glob("*.safetensors")}
        assert b64decode(about["sha256"]).hex() in held, f"P6: no file has the hash of {about}"
