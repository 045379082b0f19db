"""When the next weights are due. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from report.history import STEP

VERSION = "trainer/weights_version"
LOOKS_BACK = 300.0
"""Seconds over which the speed of training is measured."""


@dataclass(frozen=True)
class Pace:
    """`[publishing]` of the trainer's settings: weights are published after this many steps or seconds."""

    steps: int = 100
    seconds: float = 30.0

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Pace:
        """The settings in trainer.toml, or defaults where they are missing or invalid."""
        found = settings.get("publishing")
        found = found if isinstance(found, Mapping) else {}
        steps, seconds = found.get("steps", cls.steps), found.get("seconds", cls.seconds)
        sound = isinstance(steps, int) and isinstance(seconds, int | float)
        return cls(steps, float(seconds)) if sound else cls()


def seconds_to_next(rows: Sequence[Mapping[str, float]], pace: Pace, now: float) -> float | None:
    """Seconds until the next weights are published; None while there is no training.

    rows: rows of figures.jsonl, oldest first. `now` in seconds since 1970, like their `time`.
    """
    recent = [row for row in rows if row["time"] >= now - LOOKS_BACK and VERSION in row]
    if len(recent) < 2:
        return None
    steps, seconds = (recent[-1][name] - recent[0][name] for name in (STEP, "time"))
    if steps <= 0 or seconds <= 0:
        return None
    newest = recent[-1]
    came = next((row for row in recent if row[VERSION] == newest[VERSION]), newest)
    steps_left = pace.steps - (newest[STEP] - came[STEP])
    at = min(newest["time"] + steps_left * seconds / steps, came["time"] + pace.seconds)
    return max(0.0, at - now)
