"""Real programs in separate processes, with keys, for the benchmarks of a whole fleet.

`Programs` starts `azserver --gpus none --workers 0`, which evaluates nothing, and a trainer that stores games
but does not train, because it waits for more positions than will come. The benchmark starts all other peers.
"""

from __future__ import annotations

import re
import sqlite3
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from azselfplay.host.processes import python_module

PATIENCE = 300.0
RUN = "hub"


class Processes:
    """The processes of a benchmark, with their logs in `folder`; they end with `stack`."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder, self._stack = folder, stack
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, argv: Sequence[str], *words: str, **how: Any) -> subprocess.Popen[bytes]:
        """Start a process whose output goes to its log; `how`: as for Popen."""
        with (self.folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen([*argv, *words], **{"stdout": log, "stderr": log, **how})
        # The stack calls these in reverse order: kill, then wait.
        self._stack.callback(process.wait)
        self._stack.callback(process.kill)
        self._processes[name] = process
        return process

    def wait_for(self, look: Callable[[], Any]) -> Any:
        """Wait until `look` returns a true value, and return it. Raises RuntimeError if a process ends
        before, or if this takes too long."""
        until = time.monotonic() + PATIENCE
        while True:
            for name, process in self._processes.items():
                if process.poll() is not None or time.monotonic() > until:
                    raise RuntimeError(f"waited in vain, and {name} says: {self.log(name)[-2000:]}")
            if found := look():
                return found
            time.sleep(0.5)

    def process(self, name: str) -> subprocess.Popen[bytes]:
        """Return a process that runs."""
        return self._processes[name]

    def kill(self, name: str) -> None:
        """Kill a process and wait for its end."""
        process = self._processes.pop(name)
        process.kill()
        process.wait()

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()


class Programs(Processes):
    """Our programs, with their keys."""

    def __init__(self, folder: Path, port: int, stack: ExitStack, listen: str = "127.0.0.1") -> None:
        super().__init__(folder, stack)
        self._port, self._listen = port, listen
        self.keys = folder / "keys"
        self.server_key = ""
        """The server's public key as text; known once the hub was started."""

    def make_keys(self, clients: Iterable[str]) -> None:
        """Make the keys of azserver, of the trainer and of the named clients, and allow them."""
        self._call("server.main", "keygen", "--keys", str(self.keys))
        for name in ("trainer", *clients):
            role = "trainer" if name == "trainer" else "client"
            words = ("--trainer",) if role == "trainer" else ()
            said = self._call("client.main", "keygen", "--key", str(self.folder / f"{name}.key"), *words)
            (key,) = re.findall(r"azserver allow \w+ \S+ '?([^'\n]+)'?", said)
            self._call("server.main", "allow", "--keys", str(self.keys), role, name, key)

    def start_hub(self, simulations: int, *words: str) -> None:
        """Start azserver, or restart it in the same folder. Returns once peers can join."""
        self.start(
            "hub",
            python_module("server.main", "--game", "chess", "--net", "tiny", "--gpus", "none"),
            *("--workers", "0", "--run", RUN, "--runs", str(self.folder / "runs"), "--port", str(self._port)),
            *("--listen", self._listen, "--keys", str(self.keys)),
            *("--self-play.search.simulations", str(simulations), *words),
        )
        key = re.compile(r"to join: azclient.*--server-key '?([^'\s]{40})")
        self.server_key = self.wait_for(lambda: key.search(self.log("hub")))[1]

    def start_trainer(self, command: Sequence[str], *words: str) -> None:
        """Start a trainer that does not train, with `command`."""
        few = ("--window.positions", "10000000", "--window.min-positions", "9000000")
        place = ("--run", RUN, "--runs", str(self.folder / "runs"))
        self.start("trainer", command, *place, *self.joining("trainer"), *few, *words)

    def joining(self, name: str) -> tuple[str, ...]:
        """Return the flags with which `name` joins."""
        key = str(self.folder / f"{name}.key")
        return "--server", f"{self._listen}:{self._port}", "--server-key", self.server_key, "--key", key

    def stored(self) -> int:
        """Return the number of games in the store; -1 if a game is there twice."""
        with closing(sqlite3.connect(self.folder / "runs" / RUN / "games.db")) as db:
            uids = Counter(uid for (uid,) in db.execute("SELECT uid FROM games"))
        return sum(uids.values()) if max(uids.values(), default=1) == 1 else -1

    @staticmethod
    def _call(module: str, *words: str) -> str:
        done = subprocess.run(python_module(module, *words), capture_output=True, text=True, check=True)
        return done.stdout + done.stderr
