"""Hours of play with clients that come and go and processes that are killed: does any process grow?"""

import os
import random
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from peers import crowd
from target import Target

SAMPLE = 5.0
"""Seconds between two measurements of memory."""
WARM_UP = 0.25
"""Share of the time at the beginning that does not count, because caches fill and code is compiled."""
BLOCK = 12
"""Samples that are drawn together for the interval, because neighbours are correlated."""
DRAWS = 1000
WINDOW = 20_000
"""Positions in the trainer's replay window: some minutes of tic-tac-toe."""


@dataclass(frozen=True)
class Slope:
    """MB per hour, with its 95 % interval."""

    process: str
    value: float
    low: float
    high: float
    samples: int

    def text(self) -> str:
        interval = f"{self.low:+.2f} to {self.high:+.2f}"
        return f"{self.process}: {self.value:+.2f} MB/h ({interval}, {self.samples} samples)"


def slope(process: str, seconds: Sequence[float], megabytes: Sequence[float], seed: int = 1) -> Slope:
    """Fit by least squares, with an interval from resampled blocks of residuals (moving block bootstrap)."""
    hours, values = np.asarray(seconds) / 3600, np.asarray(megabytes)
    line = np.polyfit(hours, values, 1)
    left = values - np.polyval(line, hours)
    rng = np.random.default_rng(seed)
    size = min(BLOCK, len(left))
    draws = []
    for _ in range(DRAWS):
        starts = rng.integers(0, len(left) - size + 1, -(-len(left) // size))
        noise = np.concatenate([left[start : start + size] for start in starts])[: len(left)]
        draws.append(np.polyfit(hours, np.polyval(line, hours) + noise, 1)[0])
    low, high = np.percentile(draws, [2.5, 97.5])
    return Slope(process, float(line[0]), float(low), float(high), len(left))


def resident(pid: int) -> float:
    """Return the MB of one process; 0 when it is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS")), 0.0)


class Soak(Target):
    """A whole system whose front and trainer stay alive while others are killed."""

    def lasting(self) -> dict[str, int]:
        """Return the processes whose memory is watched."""
        return {"azserver": self.front, "trainer": self._processes["trainer"].pid}

    def _trainer_flags(self) -> list[str]:
        """Return flags for a replay window that is soon full, because a trainer grows until then."""
        return [*super()._trainer_flags(), "--window.positions", str(WINDOW)]

    def kill_something(self, rng: random.Random) -> str:
        """Kill the evaluator, or azclient with its worker, which is restarted."""
        if rng.random() < 0.5:
            try:
                os.kill(self.evaluator(), signal.SIGKILL)
            except StopIteration:
                return "no evaluator was up"
            return "evaluator"
        process = self._processes["client.main"]
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        self._start("client.main", self._client_flags())
        return "azclient"


def soak(folder: Path, minutes: float, say: Callable[[str], None], seed: int = 1) -> list[Slope]:
    """Run it and return the slopes. Every half minute some clients come or go; every two minutes a process is
    killed."""
    rng, seen, end = random.Random(seed), {}, 60 * minutes
    samples: dict[str, list[tuple[float, float]]] = {}
    with Soak(folder) as target:
        seen = target.lasting()
        begun, kill_at = time.monotonic(), 120.0
        while (now := time.monotonic() - begun) < end:
            with crowd() as guests:
                for _ in range(rng.randint(5, 40)):
                    if guest := guests.peer(target.port):
                        guest.join("client")
                until = min(end, now + rng.uniform(20, 40))
                while (now := time.monotonic() - begun) < until:
                    for name, pid in seen.items():
                        samples.setdefault(name, []).append((now, resident(pid)))
                    time.sleep(SAMPLE)
            if now >= kill_at:
                say(f"{now / 60:.1f} min: killed {target.kill_something(rng)}")
                kill_at = now + 120.0
        assert all(resident(pid) for pid in seen.values()), "a process that should have lived on has ended"
    late = {name: [one for one in found if one[0] >= WARM_UP * end] for name, found in samples.items()}
    return [slope(name, *zip(*found, strict=True)) for name, found in late.items()]
