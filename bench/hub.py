"""What the hub's absence costs: boxes with evaluators of their own play on while azserver is killed.

Real programs with keys: `azserver --gpus none --workers 0`, a trainer that stores games but does not train,
and an azclient for each box. Only the boxes' network is made up: it takes its time and needs no processor, so
that two cores are about half busy. The hub is killed with SIGKILL and started again after a minute, in the
same folder. Afterwards the boxes hand in everything, and games are counted on both sides.

`AZ_BENCH_SECONDS` is the length of each of the three phases: before, away, and after (default 60).
"""

from __future__ import annotations

import os
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any
from unittest.mock import patch
from urllib.request import urlopen

import client.evaluator
import client.main
from azselfplay.batching.loop import Exceptions
from azselfplay.host.ports import claimed_base_port
from azselfplay.host.processes import python_module
from bench.worker import MadeUpNetwork
from client.spool import MAX_GAMES

BOXES = 2
BATCH_SECONDS = 0.004
"""Of 64 rows: 16,000 leaves/s a box at most."""
SETTLING_SECONDS = 20.0
PATIENCE = 300.0
FIRST_PORT = 17_000


def box(argv: list[str]) -> int:
    """Run azclient with our evaluators (`evaluator`) in place of its own."""

    def command(module: str, *flags: str) -> list[str]:
        ours = ("bench.hub", "evaluator") if module == "client.evaluator" else (module,)
        return python_module(*ours, *flags)

    with patch("client.config.python_module", command):
        return client.main.main(argv)


def evaluator(argv: list[str]) -> int:
    """Run a client's evaluator with a network that only takes its time."""
    sys.argv[1:] = argv
    made_up = MadeUpNetwork(BATCH_SECONDS), Exceptions(OSError)
    with patch("client.evaluator.open_device", lambda *_: made_up):
        return client.evaluator.main()


class Programs:
    """The processes of the benchmark, with their logs, keys and counts, in `folder`."""

    def __init__(self, folder: Path, port: int, stack: ExitStack) -> None:
        self._folder, self._port, self._stack = folder, port, stack
        self._server_key = ""

    def make_keys(self) -> None:
        self._call("server.main", "keygen", "--keys", str(self._folder / "keys"))
        for name in ("trainer", *(f"box-{number}" for number in range(BOXES))):
            role = "trainer" if name == "trainer" else "client"
            words = ("--trainer",) if role == "trainer" else ()
            said = self._call("client.main", "keygen", "--key", str(self._folder / f"{name}.key"), *words)
            (key,) = re.findall(r"azserver allow \w+ \S+ '?([^'\n]+)'?", said)
            self._call("server.main", "allow", "--keys", str(self._folder / "keys"), role, name, key)

    def start_hub(self) -> subprocess.Popen[bytes]:
        """Start azserver. Returns once it can be joined."""
        hub = self._start(
            "hub",
            python_module("server.main", "--game", "chess", "--net", "tiny", "--gpus", "none"),
            *("--workers", "0", "--run", "hub", "--runs", str(self._folder), "--port", str(self._port)),
            *("--listen", "127.0.0.1", "--keys", str(self._folder / "keys")),
            *("--self-play.search.simulations", "32"),
        )
        log = self._folder / "hub.log"
        self._server_key = wait_for(
            lambda: re.search(r"to join: azclient.*--server-key '?([^'\s]{40})", log.read_text())
        )[1]
        return hub

    def start_trainer(self) -> None:
        words = ("--run", "hub", "--runs", str(self._folder), *self._joining("trainer"))
        # More positions than will come: it stores games, and does not train.
        words += ("--window.positions", "10000000", "--window.min-positions", "9000000")
        self._start("trainer", python_module("trainer"), *words)

    def start_box(self, number: int) -> subprocess.Popen[bytes]:
        """Start an azclient with one evaluator and one worker."""
        name = f"box-{number}"
        return self._start(
            name,
            python_module("bench.hub", "box", "--device", "cpu", "--workers", "1", "--name", name),
            *(*self._joining(name), "--spool", str(self._folder / f"{name}-spool")),
            *("--metrics-port", str(self._metrics_port(number)), "--drain", str(PATIENCE), "--games", "64"),
        )

    def count(self, figure: str) -> int:
        """The sum of a figure of all boxes (`client.metrics`); 0 before they have any."""
        total = 0
        for number in range(BOXES):
            try:
                with urlopen(f"http://127.0.0.1:{self._metrics_port(number)}/metrics") as answer:
                    text = answer.read().decode()
            except OSError:
                continue
            total += sum(int(float(value)) for value in re.findall(rf"^{figure}{{.*}} (\S+)$", text, re.M))
        return total

    def drained(self) -> list[int]:
        """The games that each box has finished and handed in, by its last words."""
        logs = [(self._folder / f"box-{number}.log").read_text() for number in range(BOXES)]
        return [
            int(count) for log in logs for count in re.findall(r"drained: (\d+) games finished, all", log)
        ]

    def stored(self) -> int:
        """The games in the store; -1 if one is there twice."""
        with closing(sqlite3.connect(self._folder / "hub" / "games.db")) as db:
            uids = Counter(uid for (uid,) in db.execute("SELECT uid FROM games"))
        return sum(uids.values()) if max(uids.values()) == 1 else -1

    def _joining(self, name: str) -> tuple[str, ...]:
        key = str(self._folder / f"{name}.key")
        return "--server", f"127.0.0.1:{self._port}", "--server-key", self._server_key, "--key", key

    def _metrics_port(self, number: int) -> int:
        return self._port + 5 + number

    @staticmethod
    def _call(module: str, *words: str) -> str:
        done = subprocess.run(python_module(module, *words), capture_output=True, text=True, check=True)
        return done.stdout + done.stderr

    def _start(self, name: str, argv: list[str], *words: str) -> subprocess.Popen[bytes]:
        with (self._folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen([*argv, *words], stdout=log, stderr=log)
        # Called in reverse order: killed, and then waited for.
        self._stack.callback(process.wait)
        self._stack.callback(process.kill)
        return process


def wait_for(look: Callable[[], Any]) -> Any:
    """Return what `look` returns once that is true. Raises TimeoutError."""
    until = time.monotonic() + PATIENCE
    while not (found := look()):
        if time.monotonic() > until:
            raise TimeoutError("the programs of the benchmark did not start, see their logs")
        time.sleep(0.5)
    return found


def run() -> dict[str, float]:
    seconds = float(os.environ.get("AZ_BENCH_SECONDS", "60"))
    rates: list[float] = []
    most_spooled = 0
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="az-")))
        programs = Programs(folder, stack.enter_context(claimed_base_port(FIRST_PORT)), stack)
        programs.make_keys()
        hub = programs.start_hub()
        programs.start_trainer()
        boxes = [programs.start_box(number) for number in range(BOXES)]
        wait_for(lambda: programs.count("az_client_games_stored_total"))
        time.sleep(SETTLING_SECONDS)

        def watch() -> None:
            """Measure the leaves a second of one phase, and the fullest spool."""
            nonlocal most_spooled
            before, began = programs.count("az_client_leaves_total"), time.monotonic()
            while time.monotonic() < began + seconds:
                time.sleep(5.0)
                most_spooled = max(most_spooled, programs.count("az_spool_games"))
            rates.append((programs.count("az_client_leaves_total") - before) / (time.monotonic() - began))

        watch()
        hub.kill()
        watch()
        programs.start_hub()
        watch()
        for process in boxes:
            process.send_signal(signal.SIGTERM)
        for process in boxes:
            process.wait()
        finished, stored = sum(programs.drained()), programs.stored()
    print(f"leaves/s before, while the hub is away, and after: {', '.join(f'{rate:,.0f}' for rate in rates)}")
    print(f"games finished by the boxes {finished}, stored {stored}; most in the spools {most_spooled}")
    shares = {"away": rates[1] / rates[0], "after": rates[2] / rates[0]}
    return {**shares, "lost": finished - stored, "spooled": most_spooled / (BOXES * MAX_GAMES)}


if __name__ == "__main__":
    sys.exit({"box": box, "evaluator": evaluator}[sys.argv[1]](sys.argv[2:]))
