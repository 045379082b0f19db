"""What azclient does with the lines that its children write."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from runtime.logs import event_in

LONGEST = 64 * 1024
"""Bytes of a line; a longer one is passed on in pieces."""
FIGURES = b"figures: "
"""What a line of a worker's figures begins with (`--figures`)."""

Sink = Callable[[bytes], None]
Figures = Mapping[str, Any]


class ByLine:
    """Takes output as it comes and hands whole lines, without their ends, to `on_line`."""

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
    """Passes a child's output on, but keeps its `command: error: ...` line to itself."""

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
    """Passes a worker's output on, but for its figures, which go to `on_figures`."""

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
    """The line that `FigureLines` reads."""
    return FIGURES.decode() + json.dumps(figures)
