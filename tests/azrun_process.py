"""azrun on tic-tac-toe as a process of its own, watched over the wire."""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from foreign_client import Channel
from free_ports import free_base_port
from process_marks import marked_environment, wait_for

ROOT = Path(__file__).resolve().parents[1]
PATIENCE = 600.0
"""Seconds until a process is up and at work again; torch starts slowly on a busy machine."""
TRAINER = """
window.min_positions = 300
optimizer.batch = 64
publishing.seconds = 1.0
cpu_threads = 1
"""


class Azrun:
    """Its run is `test` in `runs`, and everything it says is in the file `said`."""

    def __init__(self, folder: Path, *flags: str, runs: Path, said: Path, trainer: str = "") -> None:
        """`trainer`: further lines of trainer.toml, which is written to `folder`."""
        self.run, self.said = runs / "test", said
        self.port = free_base_port()
        (folder / "trainer.toml").write_text(TRAINER + trainer)
        self.environment = marked_environment()
        command = [
            *(sys.executable, "-m", "azselfplay.lab.azrun", "--game", "tic_tac_toe", "--recipe", "none"),
            *("--simulations", "8", "--games", "8", "--port", str(self.port)),
            *("--runs", str(runs), "--run", "test"),
            *("--gpus", "cpu", "--trainer-config", str(folder / "trainer.toml"), *flags),
        ]
        with said.open("wb") as file:
            self.process = subprocess.Popen(
                command, cwd=ROOT, env=self.environment, stdout=subprocess.PIPE, stderr=file, text=True
            )
        self._watcher: Channel | None = None

    def figures(self) -> dict[str, Any]:
        deadline = time.monotonic() + PATIENCE
        if self._watcher is None:
            self._watcher = Channel(f"tcp://127.0.0.1:{self.port + 1}", role="watcher")
            self._watcher.hello(deadline)
        answer, _ = self._watcher.ask({"type": "get_status"}, [], {"type": "status"}, deadline, resend=2.0)
        return answer["figures"]

    def trained(self, name: str, default: Any = 0) -> Any:
        """Return a figure of the trainer, `default` while there is none."""
        return (self.figures()["trainer"] or {}).get(name, default)

    def wait(self, what: Callable[[], bool], meaning: str) -> None:
        def checked() -> bool:
            assert self.process.poll() is None, f"azrun ended while waiting for {meaning}: {self.logs()}"
            return what()

        wait_for(checked, lambda: f"{meaning}\n{self.logs()}", PATIENCE)

    def logs(self) -> str:
        files = sorted((self.run / "logs").glob("azrun*.log"))
        return "\n".join(f"--- {file.name}\n{file.read_text(errors='replace')[-3000:]}" for file in files)
