"""A run folder to which server, worker and trainer write without pause, all of them simulated in one
thread."""

import dataclasses
import threading
from pathlib import Path

import numpy as np
from training_runs import GAME, training

from azselfplay.host.runs import RunFolder
from azselfplay.store.sqlite import Store
from bench.random_games import entry, random_game
from client.spool import Spool, run_folder
from protocol.records import GameRecord, to_bytes
from server.weights import WeightsStore

GAMES_A_VERSION = 7
"""A small odd number, so that backups are made in all states."""


class LiveRun(threading.Thread):
    """Plays random games of tic-tac-toe: each is spooled, stored, then deleted from the spool. Every few
    games it publishes new weights and writes a checkpoint."""

    def __init__(self, root: Path, name: str = "live") -> None:
        super().__init__(daemon=True)
        self.folder = RunFolder(root, name)
        self.folder.create(GAME.name, 1)
        self.folder.config.write_text('net = "tiny"\n')
        spool = run_folder(self.folder.spool, GAME.name, name, self.folder.run_id) / "worker-0"
        spool.mkdir(parents=True)
        self._spool = Spool(spool)
        self._spool.open()
        self._store = Store(self.folder.games, GAME.name)
        self._weights = WeightsStore(self.folder.weights, GAME.name, kept=2, past=2)
        self._training = training(self.folder.checkpoints)
        self._rng = np.random.default_rng(0)
        self.finished: list[bytes] = []
        """Uids of all games that are on the disk, in any place."""
        self.stopping = threading.Event()
        self.error: BaseException | None = None
        self._publish()

    def run(self) -> None:
        try:
            while not self.stopping.is_set():
                self.play(1)
        except BaseException as error:  # `stop` fails if there is one
            self.error = error

    def stop(self) -> None:
        self.stopping.set()
        if self.ident is not None:
            self.join()
        assert self.error is None
        self._store.close()

    def play(self, count: int, *, stored: bool = True) -> None:
        for _ in range(count):
            record = self._game()
            self._spool.write([(record.uid, to_bytes(record))])
            self.finished.append(record.uid)
            if not stored:
                continue
            assert self._store.commit([entry(record)]) == ["stored"]
            self._spool.delete(record.uid)
            self._training.turn([record], self._store.newest, 10**6)
            if self._store.newest % GAMES_A_VERSION == 0:
                self._publish()
                self._training.save()

    def _game(self) -> GameRecord:
        current = self._weights.current
        assert current is not None
        record = random_game(GAME, self._rng, simulations=20)
        versions = np.full(record.plies, current.version, np.uint32)
        return dataclasses.replace(record, versions=versions, run=self.folder.run_id)

    def _publish(self) -> None:
        newest = self._weights.current.version if self._weights.current else 0
        version, step, data = self._training.publish(newest)
        self._weights.add(data, version, step, "tiny")
