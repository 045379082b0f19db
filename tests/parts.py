"""azserver, azclient and trainer as separate processes, each of which can be ended and started again."""

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from target import Target

PATIENCE = 600.0
"""Seconds until a process is up and at work again; torch starts slowly on a busy machine."""
RUN = "tic_tac_toe-tiny"
GAMES = "4"
"""Games at a time in each worker: some load, but not much."""
MODULES = {"azserver": "server.main", "azclient": "client.main", "azplay": "azselfplay.lab.azplay"}


def command(name: str, *words: str) -> list[str]:
    return [sys.executable, "-m", MODULES.get(name, name), *words]


class Parts(Target):
    """The processes of the hostile tests, with a trainer that trains and publishes, in a folder of its
    own."""

    def _server_flags(self) -> list[str]:
        return [*super()._server_flags(), "--games", GAMES]

    def _client_flags(self) -> list[str]:
        return [*super()._client_flags(), "--games", GAMES]

    def _trainer_flags(self) -> list[str]:
        return [
            *("--server", f"127.0.0.1:{self.port}", "--device", "cpu", "--cpu-threads", "1"),
            *("--window.min-positions", "300", "--optimizer.batch", "64", "--publishing.seconds", "3"),
            *("--publishing.checkpoint-seconds", "1", "--runs", str(self.trainers)),
        ]

    @property
    def trainers(self) -> Path:
        """The folder of the trainer's runs, as if it were on another machine."""
        return self.folder / "trainer"

    def trained(self) -> dict[str, Any]:
        """Return the trainer's figures."""
        figures: dict[str, Any] = self.figures(PATIENCE)["trainer"] or {}
        return figures

    def wait(self, what: Callable[[], bool], meaning: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while not what():
            assert time.monotonic() < deadline, f"in vain: {meaning}\n{self.log()}\n{self.log('trainer')}"
            time.sleep(0.2)

    def end(self, name: str, how: signal.Signals = signal.SIGTERM) -> int:
        """End a part (`server`, `trainer`, `client.main`) and wait; return its exit status."""
        process = self._processes.pop(name)
        process.send_signal(how)
        return process.wait(PATIENCE)

    def begin(self, name: str) -> None:
        flags = {
            "server": self._server_flags,
            "trainer": self._trainer_flags,
            "client.main": self._client_flags,
        }
        self._start(name, flags[name]())

    def end_evaluator(self) -> int:
        """Send SIGTERM to the evaluator; return its process id."""
        pid = self.evaluator()
        os.kill(pid, signal.SIGTERM)
        return pid
