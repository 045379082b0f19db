"""Figures over time: event files for TensorBoard, and lines of JSON for whoever has no TensorBoard.

`tensorboard --logdir runs/NAME/tensorboard` draws the first, `azplay report NAME` reads the second.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trainer.figures import scalars

log = logging.getLogger(__name__)

LINE_SECONDS, LONGEST_LINE_SECONDS = 2.0, 60.0
"""Least and most time between two lines; in between it is a hundredth of the time since the start."""


class Curves:
    """Writes the figures against the training step, once a step."""

    def __init__(self, folder: Path, lines: Path) -> None:
        # Imported here: it takes a second, and only a running trainer needs it.
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(str(folder))
        self._lines = FigureLines(lines)
        self._last_step = 0

    def write(self, figures: Mapping[str, Any], now: float) -> None:
        """`now` in seconds, on any one clock."""
        step = figures["step"]
        if step == self._last_step:
            return
        self._last_step = step
        numbers = scalars(figures)
        for name, number in numbers.items():
            self._writer.add_scalar(name, number, step)
        self._lines.write({**numbers, "alerts": figures["alerts"]}, now)

    def close(self) -> None:
        self._writer.close()


class FigureLines:
    """A file of JSON lines, close together at first, so that it stays small however long a run is."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._started: float | None = None
        self._written = float("-inf")

    def write(self, figures: Mapping[str, Any], now: float) -> None:
        """Append a line if one is due. A full disk costs the line, not the trainer."""
        self._started = now if self._started is None else self._started
        pause = min(LONGEST_LINE_SECONDS, max(LINE_SECONDS, (now - self._started) / 100))
        if now - self._written < pause:
            return
        self._written = now
        line = json.dumps({"time": round(time.time(), 1), **figures}) + "\n"
        try:
            # In one write, and begun on a new line should the one before have been cut off by a kill.
            with self._path.open("a+b") as file:
                file.write((b"" if _is_whole(self._path) else b"\n") + line.encode())
        except OSError as error:
            log.warning("no line in %s: %s", self._path, error.strerror)


def _is_whole(path: Path) -> bool:
    """Whether the file is empty or ends with a whole line."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - 1))
        return file.read(1) in (b"", b"\n")
