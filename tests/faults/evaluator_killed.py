"""SIGKILL to the evaluator under load: measures how long until the throughput is back."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from key_shares import HONEST, Honest, KeyedServer

BEFORE = 20.0
"""Seconds over which the throughput is measured before a kill."""
SAMPLE = 0.5
"""Seconds between two samples."""
WINDOW = 5.0
"""Seconds over which the throughput must be back; a shorter mean would depend on the machine as much as on
azserver."""
PATIENCE = 180.0
BACK = 0.95
"""Share of the earlier throughput that counts as back."""
WANTED = 30.0
"""Seconds allowed by the plan."""

Samples = Sequence[tuple[float, float]]
"""Seconds since the kill, and leaves answered so far."""


@dataclass(frozen=True)
class Kill:
    """One kill."""

    before: float
    """Leaves a second before the kill."""
    seconds: float
    """Seconds from the kill to the beginning of the first WINDOW with at least BACK of it."""


def back_at(samples: Samples, before: float) -> float | None:
    """Seconds after the kill at which throughput is back; None if it is not yet."""
    for at, (begun, answered) in enumerate(samples):
        later = next((one for one in samples[at:] if one[0] >= begun + WINDOW), None)
        if later is None:
            return None
        if begun > 0 and (later[1] - answered) / (later[0] - begun) >= BACK * before:
            return begun
    return None


def measure(folder: Path, kills: int, say: Callable[[str], None]) -> list[Kill]:
    """Kill the evaluator `kills` times, each time after the throughput is back. Raises AssertionError if it
    never is."""
    found = []
    with KeyedServer(folder) as server, ExitStack() as stack:
        honest = Honest(server)
        stack.callback(honest.close)
        server.wait(lambda: server.metrics().get('az_clients{role="clients"}', 0) >= HONEST, "all to join")
        honest.be_active(HONEST)
        honest.rates(BEFORE)  # until batches have reached their size
        for _ in range(kills):
            found.append(_kill(server, honest))
            say(
                f"{found[-1].before:.0f} leaves/s before; {found[-1].seconds:.1f} s until 95 % of it was back"
            )
        restarts = server.metrics()["az_gpu_worker_restarts_total"]
        assert restarts == kills, f"{restarts:.0f} restarts are told of, and there were {kills}"
    return found


def _kill(server: KeyedServer, honest: Honest) -> Kill:
    before = sum(honest.rates(BEFORE))
    at, answered = honest.counts()
    samples = [(0.0, float(sum(answered)))]
    os.kill(server.evaluator(), signal.SIGKILL)
    while (seconds := back_at(samples, before)) is None:
        time.sleep(SAMPLE)
        now, answered = honest.counts()
        samples.append((now - at, float(sum(answered))))
        assert now - at < PATIENCE, (
            f"{before:.0f} leaves/s were not back after {PATIENCE:.0f} s: {samples[-1]}"
        )
    return Kill(before, seconds)


def text(found: Sequence[Kill]) -> str:
    """The figure for the row."""
    seconds = [kill.seconds for kill in found]
    return (
        f"{len(found)} kills under {median(kill.before for kill in found):.0f} leaves/s: 95 % of that was "
        f"back after {median(seconds):.1f} s ({min(seconds):.1f} to {max(seconds):.1f})"
    )
