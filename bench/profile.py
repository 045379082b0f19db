"""Where a running loop spends the processor: every process, thread and function (`host.profiling`).

Connect Four with a small network, as `azrun` starts it, with training. `AZ_BENCH_SECONDS` sets how long it is
watched (default 60), after the time that compiling takes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from azselfplay.host.profiling import AFTER, VARIABLE

STARTING_SECONDS = 60.0
"""Seconds until the search is compiled, and training has begun."""
SHOWN = 0.01
"""Least share of a line of the table."""


def watched(folder: Path, seconds: float) -> None:
    """Run the loop with a profile of each process in `folder`."""
    command = [
        *(sys.executable, "-m", "azselfplay.lab.azrun", "--game", "connect_four", "--recipe", "none"),
        *("--net", "3x48"),
        *("--simulations", "64", "--games", "256", "--workers", "1", "--client-workers", "0"),
        *("--minutes", str((STARTING_SECONDS + seconds) / 60), "--runs", str(folder / "runs")),
    ]
    env = os.environ | {VARIABLE: str(folder), AFTER: str(STARTING_SECONDS)}
    subprocess.run(command, env=env, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def lines_of(folder: Path) -> list[tuple[float, str, str]]:
    """(cores, command, thread | function) of all processes, the largest first."""
    lines = []
    for path in folder.glob("*.json"):
        found = json.loads(path.read_text())
        if found["seconds"] > 0:
            command = path.stem.rpartition("-")[0]
            lines += [(used / found["seconds"], command, what) for what, used in found["functions"].items()]
    return sorted(lines, reverse=True)


def run() -> dict[str, float]:
    """Cores used by each process."""
    seconds = float(os.environ.get("AZ_BENCH_SECONDS", "60"))
    with TemporaryDirectory() as folder:
        watched(Path(folder), seconds)
        lines = lines_of(Path(folder))
    total = sum(cores for cores, _, _ in lines)
    figures: dict[str, float] = {}
    for cores, command, _ in lines:
        figures[command] = figures.get(command, 0.0) + cores
    print(f"{total:.2f} cores in all; by process, thread and function:")
    for cores, command, what in lines:
        if cores >= SHOWN * total:
            print(f"  {cores / total:6.1%}  {command:18} {what}")
    return {name: round(cores, 3) for name, cores in sorted(figures.items(), key=lambda one: -one[1])}
