"""Figures over time: event files for TensorBoard, and JSON lines for readers without TensorBoard.

`tensorboard --logdir runs/NAME/tensorboard` draws the former, `azplay report NAME` reads the latter.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from runtime.log_files import append_whole
from runtime.logs import Repeated
from trainer.figures import scalars

log = logging.getLogger(__name__)

LINE_SECONDS, LONGEST_LINE_SECONDS = 2.0, 60.0
"""Least and most seconds between two points; in between it is a hundredth of the time since the start."""


class Thinning:
    """Decides when the next point of a curve is due: close together at first, a minute apart in a long
    run."""

    def __init__(self) -> None:
        self._started: float | None = None
        self._last = float("-inf")

    def is_due(self, now: float) -> bool:
        """Return whether a point is due at `now`, in seconds on any one clock; if so, it counts as
        written."""
        self._started = now if self._started is None else self._started
        pause = min(LONGEST_LINE_SECONDS, max(LINE_SECONDS, (now - self._started) / 100))
        if now - self._last < pause:
            return False
        self._last = now
        return True


class Curves:
    """Writes the figures against the training step. A full disk loses points, but does not stop the
    trainer."""

    def __init__(self, folder: Path, lines: Path) -> None:
        # Imported here because it takes a second and only a running trainer needs it.
        from trainer.event_file import EventFile

        self._events = EventFile(folder)
        self._lines = FigureLines(lines)
        self._thinning = Thinning()
        self._repeated = Repeated(log)
        self._last_step = 0

    def finish(self, figures: Mapping[str, Any]) -> None:
        """Write the last point, however recent the one before it is; if both have the same step, readers use
        the last."""
        if figures["step"]:
            self._lines.append({**scalars(figures), "alerts": figures["alerts"]}, time.monotonic())

    def write(self, figures: Mapping[str, Any], now: float) -> None:
        """Write the figures if they are due. `now` in seconds, on any one clock."""
        step = figures["step"]
        if step == self._last_step or not self._thinning.is_due(now):
            return
        self._last_step = step
        numbers = scalars(figures)
        try:
            self._events.write(numbers, step)
        except OSError as error:
            text = f"figures of step {step} are missing in {self._events.path}: {error.strerror}"
            self._repeated.warning("events", text, now)
        self._lines.write({**numbers, "alerts": figures["alerts"]}, now)


class FigureLines:
    """A file of JSON lines, close together at first and thinned out later, so that it stays small in a long
    run."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._thinning = Thinning()
        self._repeated = Repeated(log)

    def write(self, figures: Mapping[str, Any], now: float) -> None:
        """Append a line if one is due. A full disk loses the line, but does not stop the trainer."""
        if self._thinning.is_due(now):
            self.append(figures, now)

    def append(self, figures: Mapping[str, Any], now: float) -> None:
        """Append a line, whether it is due or not."""
        line = json.dumps({"time": round(time.time(), 1), **figures}) + "\n"
        try:
            # Begin on a new line in case a kill cut off the previous one.
            begin = b"\n" if self._path.exists() and not _is_whole(self._path) else b""
            append_whole(self._path, begin + line.encode())
        except OSError as error:
            self._repeated.warning("lines", f"no line in {self._path}: {error.strerror}", now)


def _is_whole(path: Path) -> bool:
    """Return whether the file is empty or ends with a complete line."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - 1))
        return file.read(1) in (b"", b"\n")
