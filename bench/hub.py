"""The cost of the hub's absence: boxes with their own evaluators play on after azserver is killed.

Real programs with keys: `azserver --gpus none --workers 0`, a trainer that stores games but does not train,
and an azclient for each box. Only the boxes' network is simulated: it waits without using a processor, so
that two cores are about half busy. The hub is killed with SIGKILL and started again after a minute, in the
same folder. Afterwards the boxes hand in everything, and games are counted on both sides.

`AZ_BENCH_SECONDS` is the length of each of the three phases: before, away, and after (default 60).
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from unittest.mock import patch
from urllib.request import urlopen

import client.evaluator
import client.main
from azselfplay.host.ports import claimed_base_port
from azselfplay.host.processes import python_module
from bench.made_up import MadeUpNetwork
from bench.programs import PATIENCE, Programs
from client.spool import MAX_GAMES

BOXES = 2
NAMES = [f"box-{number}" for number in range(BOXES)]
SIMULATIONS = 32
BATCH_SECONDS = 0.004
"""Seconds for a batch of 64 rows: at most 16,000 leaves/s per box."""
SETTLING_SECONDS = 20.0
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
    made_up = MadeUpNetwork(BATCH_SECONDS)
    with patch("client.evaluator.open_device", lambda *_: made_up):
        return client.evaluator.main()


class Boxes:
    """An azclient for each box, and the figures that it counts."""

    def __init__(self, programs: Programs, first_port: int) -> None:
        self._programs, self._first_port = programs, first_port

    def start(self, number: int) -> subprocess.Popen[bytes]:
        """Start an azclient with one evaluator and one worker."""
        name = NAMES[number]
        return self._programs.start(
            name,
            python_module("bench.hub", "box", "--device", "cpu", "--workers", "1", "--name", name),
            *(*self._programs.joining(name), "--spool", str(self._programs.folder / f"{name}-spool")),
            *("--metrics-port", str(self._first_port + number), "--drain", str(PATIENCE), "--games", "64"),
        )

    def count(self, figure: str) -> int:
        """Return the sum of a figure over all boxes (`client.metrics`); 0 before they have any."""
        total = 0
        for number in range(BOXES):
            try:
                with urlopen(f"http://127.0.0.1:{self._first_port + number}/metrics") as answer:
                    text = answer.read().decode()
            except OSError:
                continue
            total += sum(int(float(value)) for value in re.findall(rf"^{figure}{{.*}} (\S+)$", text, re.M))
        return total

    def drained(self) -> list[int]:
        """Return the number of games that each box has finished and handed in, according to the last lines of
        its log."""
        said = (re.findall(r"drained: (\d+) games finished, all", self._programs.log(name)) for name in NAMES)
        return [int(count) for counts in said for count in counts]


def run() -> dict[str, float]:
    seconds = float(os.environ.get("AZ_BENCH_SECONDS", "60"))
    rates: list[float] = []
    most_spooled = 0
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="az-")))
        port = stack.enter_context(claimed_base_port(FIRST_PORT))
        programs = Programs(folder, port, stack)
        programs.make_keys(NAMES)
        programs.start_hub(SIMULATIONS)
        programs.start_trainer(python_module("trainer"))
        boxes = Boxes(programs, port + 5)
        processes = [boxes.start(number) for number in range(BOXES)]
        programs.wait_for(lambda: boxes.count("az_client_games_stored_total"))
        time.sleep(SETTLING_SECONDS)

        def watch() -> None:
            """Measure the leaves per second of one phase, and the largest number of games in spools."""
            nonlocal most_spooled
            before, began = boxes.count("az_client_leaves_total"), time.monotonic()
            while time.monotonic() < began + seconds:
                time.sleep(5.0)
                most_spooled = max(most_spooled, boxes.count("az_spool_games"))
            rates.append((boxes.count("az_client_leaves_total") - before) / (time.monotonic() - began))

        watch()
        programs.kill("hub")
        watch()
        programs.start_hub(SIMULATIONS)
        watch()
        for process in processes:
            process.send_signal(signal.SIGTERM)
        for process in processes:
            process.wait()
        finished, stored = sum(boxes.drained()), programs.stored()
    print(f"leaves/s before, while the hub is away, and after: {', '.join(f'{rate:,.0f}' for rate in rates)}")
    print(f"games finished by the boxes {finished}, stored {stored}; most in the spools {most_spooled}")
    shares = {"away": rates[1] / rates[0], "after": rates[2] / rates[0]}
    return {**shares, "lost": finished - stored, "spooled": most_spooled / (BOXES * MAX_GAMES)}


if __name__ == "__main__":
    sys.exit({"box": box, "evaluator": evaluator}[sys.argv[1]](sys.argv[2:]))
