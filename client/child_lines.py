"""How azclient handles the lines that its child processes write."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from runtime.logs import event_in

LONGEST = 64 * 1024
"""Most bytes in a line; a longer one is passed on in pieces."""
FIGURES = b"figures: "
"""Beginning of a line with a worker's figures (`--figures`)."""

IN_SEARCH = "network_in_search"
"""The one figure of the worker that prepares: whether the run's network is part of the players' search."""

Sink = Callable[[bytes], None]
Figures = Mapping[str, Any]


class ByLine:
    """Accepts output as it arrives and passes whole lines, without their ends, to `on_line`."""

    def __init__(self, on_line: Callable[[bytes], None]) -> None:
        self._on_line = on_line
        self._rest = b""

    def __call__(self, output: bytes) -> None:
        *lines, self._rest = (self._rest + output).split(b"\n")
        for line in lines:
            self._on_line(line)
        if len(self._rest) > LONGEST:
            self._on_line(self._rest)
            self._rest = b""


class LastWords(ByLine):
    """Passes a child's output on, but stores its `command: error: ...` line instead."""

    MARK = ": error: "

    def __init__(self, sink: Sink) -> None:
        super().__init__(self._look_at)
        self.error = ""
        self._sink = sink

    def _look_at(self, line: bytes) -> None:
        _, mark, words = event_in(line.decode(errors="replace")).partition(self.MARK)
        if mark:
            self.error = words
        else:
            self._sink(line + b"\n")


class FigureLines(ByLine):
    """Passes a worker's output on, except its figures, which go to `on_figures`."""

    def __init__(self, sink: Sink, on_figures: Callable[[Figures], None]) -> None:
        super().__init__(self._look_at)
        self._sink = sink
        self._on_figures = on_figures

    def _look_at(self, line: bytes) -> None:
        if not line.startswith(FIGURES):
            self._sink(line + b"\n")
            return
        try:
            self._on_figures(dict(json.loads(line.removeprefix(FIGURES))))
        except (ValueError, TypeError):
            self._sink(line + b"\n")


def figures_line(figures: Figures) -> str:
    """Return the line that `FigureLines` reads."""
    return FIGURES.decode() + json.dumps(figures)
