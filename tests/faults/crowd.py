"""Measures when the last of a thousand clients is served, if all join within a second, and again after the
server was killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from target import ROOT, Target

PROCESSES = 4
PATIENCE = 180.0


class ServerAlone(Target):
    """azserver without players and without a trainer; it can be killed and restarted on its port."""

    def __enter__(self) -> ServerAlone:
        try:
            self._start("server", self._server_flags())
            self.wait(self._is_up, "an evaluator")
        except BaseException:
            self.stop()
            raise
        return self

    def _is_up(self) -> bool:
        return bool(self.figures()["evaluators"])

    def restart(self) -> float:
        """Kill it with SIGKILL, restart it, and wait for the first evaluator. Returns when that was up
        (monotonic clock)."""
        server = self._processes["server"]
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()
        if self._watcher is not None:
            self._watcher.close(bye=False)
            self._watcher = None
        self._start("server", self._server_flags())
        self.wait(self._is_up, "an evaluator after the restart")
        return time.monotonic()

    def _server_flags(self) -> list[str]:
        flags = super()._server_flags()
        flags[flags.index("--workers") + 1] = "0"
        return flags


class Crowd:
    """Several processes of `crowd_members`, with the time of the first answer in each session of each
    member."""

    def __init__(self, port: int, clients: int) -> None:
        self._lock = threading.Lock()
        self.served: dict[tuple[int, int], list[float]] = {}
        """By process and member: the time of each session's first answer."""
        share = -(-clients // PROCESSES)
        sizes = [min(share, clients - first) for first in range(0, clients, share)]
        command = [sys.executable, str(ROOT / "tests/faults/crowd_members.py"), str(port)]
        self.processes = [
            subprocess.Popen(
                [*command, str(size), str(number * share)], cwd=ROOT, stdout=subprocess.PIPE, text=True
            )
            for number, size in enumerate(sizes)
        ]
        for number, process in enumerate(self.processes):
            threading.Thread(target=self._read, args=(number, process), daemon=True).start()

    def _read(self, number: int, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            member, _, at = line.split()
            with self._lock:
                self.served.setdefault((number, int(member)), []).append(float(at))

    def served_since(self, begun: float) -> list[float]:
        """The time of the first answer to each member that was served since `begun`."""
        with self._lock:
            firsts = [[at for at in times if at >= begun][:1] for times in self.served.values()]
        return sorted(at for first in firsts for at in first)

    def wait(self, clients: int, begun: float) -> list[float]:
        """Wait until `clients` clients have been served. Raises AssertionError if that never happens."""
        deadline = time.monotonic() + PATIENCE
        while len(served := self.served_since(begun)) < clients:
            assert time.monotonic() < deadline, f"{len(served)} of {clients} were served in {PATIENCE:.0f} s"
            time.sleep(0.1)
        return served

    def close(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()


@contextmanager
def crowd(port: int, clients: int) -> Iterator[Crowd]:
    members = Crowd(port, clients)
    try:
        yield members
    finally:
        members.close()


@dataclass(frozen=True)
class Times:
    """Seconds from the first answer to the last, and from the server's first evaluator to the last answer."""

    join: float
    again: float
    clients: int

    def text(self) -> str:
        return (
            f"{self.clients} clients: the last was served {self.join:.1f} s after the first; after "
            f"a kill of azserver "
            f"{self.again:.1f} s after its first evaluator was up"
        )


def measure(folder: Path, clients: int) -> Times:
    """Measure both joins."""
    with ServerAlone(folder) as target, crowd(target.port, clients) as members:
        first = members.wait(clients, 0.0)
        up = target.restart()
        again = members.wait(clients, first[-1] + 0.001)
        return Times(first[-1] - first[0], max(0.0, again[-1] - up), clients)
