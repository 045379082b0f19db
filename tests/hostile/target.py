"""The target of attacks: a real azserver with its own worker, a real trainer and a real azclient, on
loopback."""

from __future__ import annotations

import ctypes
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from foreign_client import Channel, Client, Game
from free_ports import free_base_port

ROOT = Path(__file__).resolve().parents[2]
HOST = "127.0.0.1"
PATIENCE = 600.0
"""Seconds for something that takes a few on an idle machine."""
SIMULATIONS = 8
PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


@dataclass(frozen=True)
class Memory:
    """Memory of one process, in MB: resident now, and the peak since `Target.forget_peak`."""

    now: float
    peak: float


class Target:
    """Enter it to start everything; `port` is the base port, `front` the server's process id."""

    def __init__(self, folder: Path, *, clients: int = 1) -> None:
        """`clients`: 1 also runs an azclient."""
        self.folder = folder
        self.port = free_base_port()
        self._clients = clients
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._watcher: Channel | None = None

    def __enter__(self) -> Target:
        try:
            self._start("server", self._server_flags())
            self.wait(lambda: self.figures()["evaluators"] > 0, "an evaluator")
            self._start("trainer", self._trainer_flags())
            if self._clients:
                self._start("client.main", self._client_flags())
            self.wait(self._is_busy, "a trainer and games")
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End everything: clients first, the server last."""
        if self._watcher is not None:
            self._watcher.close(bye=False)
            self._watcher = None
        for process in list(self._processes.values())[::-1]:
            process.terminate()
        for process in self._processes.values():
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                _kill_session(process)
        self._processes.clear()

    # ---- what is seen of it ------------------------------------------------------------------

    @property
    def front(self) -> int:
        return self._processes["server"].pid

    def is_alive(self) -> bool:
        server = self._processes.get("server")
        return server is not None and server.poll() is None

    def figures(self, seconds: float = PATIENCE) -> dict[str, Any]:
        """Return STATUS, over a connection that is kept. Raises TimeoutError when none came in `seconds`, or
        none will."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                return self._ask(min(deadline, time.monotonic() + 2.0))
            except TimeoutError:
                if not self.is_alive() or time.monotonic() >= deadline:
                    raise

    def _ask(self, deadline: float) -> dict[str, Any]:
        if self._watcher is None:
            self._watcher = Channel(f"tcp://{HOST}:{self.port}", role="watcher")
        if not self._watcher.welcome:
            self._watcher.hello(deadline)
        answer, _ = self._watcher.ask({"type": "get_status"}, [], {"type": "status"}, deadline, resend=5.0)
        return answer["figures"]

    def memory(self) -> Memory:
        """Return the memory of the front."""
        text = Path(f"/proc/{self.front}/status").read_text()
        lines = dict(line.split(":", 1) for line in text.splitlines())
        return Memory(*(int(lines[key].split()[0]) / 1024 for key in ("VmRSS", "VmHWM")))

    def forget_peak(self) -> None:
        """Restart the peak of `memory()` at the present resident memory."""
        Path(f"/proc/{self.front}/clear_refs").write_text("5")

    def evaluator(self) -> int:
        """Return the process id of the evaluator, a child of azserver."""
        children = Path(f"/proc/{self.front}/task/{self.front}/children").read_text().split()
        lines = ((int(pid), Path(f"/proc/{pid}/cmdline").read_text()) for pid in children)
        return next(pid for pid, line in lines if "server.evaluator" in line)

    def stored_uids(self) -> set[bytes]:
        """Return the uids of all games in the trainer's store."""
        database = sqlite3.connect(f"file:{self.folder}/runs/tic_tac_toe-tiny/games.db?mode=ro", uri=True)
        try:
            return {uid for (uid,) in database.execute("SELECT uid FROM games")}
        finally:
            database.close()

    def wait(self, what: Callable[[], bool], meaning: str) -> None:
        """Wait until `what()` holds. Raises AssertionError with the server's last lines if it never does."""
        deadline = time.monotonic() + PATIENCE
        while not what():
            assert self.is_alive(), f"azserver ended while waiting for {meaning}\n{self.log()}"
            assert time.monotonic() < deadline, f"in vain: {meaning}\n{self.log()}"
            time.sleep(0.1)

    def log(self, name: str = "server") -> str:
        """Return the last lines of a part's output."""
        return (self.folder / f"{name}.log").read_text(errors="replace")[-3000:]

    def _is_busy(self) -> bool:
        figures = self.figures()
        busy = figures["sessions"]["trainer"] == 1 and figures["sessions"]["clients"] >= self._clients
        return busy and figures["sessions"]["workers"] >= 1

    # ---- processes ---------------------------------------------------------------------------

    def _start(self, name: str, flags: list[str]) -> None:
        """Start the module `name`, or azserver as `server`."""
        argv = [sys.executable, "-m", "server.main" if name == "server" else name, *flags]
        with (self.folder / f"{name}.log").open("ab") as out:
            self._processes[name] = subprocess.Popen(
                argv, cwd=ROOT, stdout=out, stderr=out, start_new_session=True, preexec_fn=_end_with_us
            )

    def _server_flags(self) -> list[str]:
        return [
            *("--game", "tic_tac_toe", "--gpus", "cpu", "--net", "tiny", "--cpu-threads", "1"),
            *("--workers", "1", "--port", str(self.port)),
            *("--self-play.search.simulations", str(SIMULATIONS), "--runs", str(self.folder / "runs")),
        ]

    def _trainer_flags(self) -> list[str]:
        flags = ["--server", f"{HOST}:{self.port}", "--device", "cpu", "--cpu-threads", "1"]
        flags += ["--samples.per-position", "0.05", "--publishing.seconds", "600"]
        return [*flags, "--publishing.steps", "100000", "--runs", str(self.folder / "runs")]

    def _client_flags(self) -> list[str]:
        flags = ["--server", f"{HOST}:{self.port}", "--device", "remote", "--workers", "1"]
        return [*flags, "--spool", str(self.folder / "spool")]


class Honest:
    """One honest client, written from the protocol's page: it plays, and remembers what was acknowledged."""

    def __init__(self, port: int) -> None:
        self._client = Client(HOST, port, 60.0)
        self._rng = random.Random(1)
        self.stored: set[bytes] = set()

    def play(self) -> Game:
        """Play a whole game: each move is evaluated by the server, and the game is stored by the trainer."""
        game = self._client.play(self._rng, keep_subtree=False)
        ack = self._client.put(game.uid, game.record())
        assert ack["status"] == "stored", ack
        self.stored.add(game.uid)
        return game

    def close(self) -> None:
        self._client.close()


def _end_with_us() -> None:
    """In a new child: let the kernel end it when the tests end in any way."""
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _kill_session(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
