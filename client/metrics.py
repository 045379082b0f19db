"""azclient's figures for Prometheus: those of its workers, each under the worker's number.

Every few seconds a worker writes a line of figures among its other output (`figures_line`). azclient takes
these lines out again (`FigureLines`), and passes all other output on unchanged. So a worker needs no port of
its own.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Any

from azselfplay.host.metrics import Metric

REPORT_SECONDS = 5.0
"""Seconds between two lines of figures from a worker."""
SILENT = 4 * REPORT_SECONDS
"""Seconds without such a line after which a worker counts as stuck."""
METRICS = (
    Metric("az_client_workers", "workers", "Worker processes that are running."),
    Metric("az_client_workers_expected", "expected", "Worker processes that should be running."),
    Metric("az_client_worker_restarts_total", "restarts", "Restarts of workers."),
    Metric("az_client_joined", "joined", "1 while a worker has a session, else 0.", label="worker"),
    Metric("az_client_may_play", "room", "1 while new games may begin: the spool has room.", label="worker"),
    Metric("az_client_leaves_total", "leaves", "Leaves evaluated for a worker.", label="worker"),
    Metric("az_client_cache_hits_total", "cache_hits", "Leaves answered from its cache.", label="worker"),
    Metric("az_client_games_total", "games", "Games it finished.", label="worker"),
    Metric("az_client_games_stored_total", "stored", "Games the trainer has stored.", label="worker"),
    Metric("az_client_games_in_progress", "in_progress", "Games it plays now.", label="worker"),
    Metric("az_client_model_version", "version", "Weights version of its newest answer.", label="worker"),
    Metric("az_spool_games", "spool_games", "Finished games that wait for the trainer.", label="worker"),
    Metric("az_spool_bytes", "spool_bytes", "Their bytes.", label="worker"),
    Metric("az_spool_kept_games", "kept", "Refused games that may fit again later.", label="worker"),
    Metric("az_spool_rejected_total", "rejected", "Games refused for good.", label="worker"),
)
PER_WORKER = tuple(metric.figure for metric in METRICS if metric.label)
LONGEST = 64 * 1024
"""Most bytes in a line; a longer one is passed on in pieces."""
FIGURES = b"figures: "
"""Beginning of a line with a worker's figures (`--figures`)."""
SEARCH = "search"
"""The figure that a worker sends before it compiles: the run's game, its selection, and the name of its
network's code ("" unless the network is part of the players' search)."""

Figures = Mapping[str, Any]
Sink = Callable[[bytes], None]


class WorkersFigures:
    """The figures that each worker sent last."""

    def __init__(self, expected: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.expected = expected
        """Worker processes that should be running."""
        self._clock = clock
        self._last: dict[int, tuple[Figures, float]] = {}

    def report(self, worker: int, figures: Figures) -> None:
        self._last[worker] = figures, self._clock()

    def ended(self, worker: int, _code: int = 0) -> None:
        """Note that the worker's process is gone."""
        if worker in self._last:
            # Keep what the worker had counted, because Prometheus counters must not go back.
            figures = {**self._last[worker][0], "joined": False, "in_progress": 0}
            self._last[worker] = figures, self._clock()

    def left(self) -> str:
        """Describe, for people, what the workers must finish before a stop that loses no game."""
        playing, waiting = (
            sum(figures.get(name, 0) for figures, _ in self._last.values())
            for name in ("in_progress", "spool_games")
        )
        return f"{playing:,} games in progress, {waiting:,} finished ones to hand in"

    def not_ready(self) -> str:
        """Return why no worker is playing; "" if one is."""
        now = self._clock()
        # A worker that hangs still counts as joined by its last line, so the age of that line counts, too.
        reports = [(figures, now - at) for figures, at in self._last.values()]
        if any(figures.get("joined") and age <= SILENT for figures, age in reports):
            return ""
        if any(figures.get("joined") for figures, _ in reports):
            return f"no worker has said anything for {SILENT:.0f} s"
        return "no worker has a session with the server"

    def as_dict(self, running: int, restarts: int) -> Mapping[str, Any]:
        """Return all figures. `running`: number of worker processes; `restarts`: restarts of all of them
        together."""
        workers = sorted(self._last.items())
        by_worker = {
            name: {index: figures[name] for index, (figures, _) in workers if name in figures}
            for name in PER_WORKER
        }
        return {"workers": running, "expected": self.expected, "restarts": restarts, **by_worker}


def figures_line(figures: Figures) -> str:
    """Return the line that `FigureLines` reads."""
    return FIGURES.decode() + json.dumps(figures)


class FigureLines:
    """Passes a worker's output on by the line, except its figures, which go to `on_figures`."""

    def __init__(self, sink: Sink, on_figures: Callable[[Figures], None]) -> None:
        self._sink = sink
        self._on_figures = on_figures
        self._rest = b""

    def __call__(self, output: bytes) -> None:
        *lines, self._rest = (self._rest + output).split(b"\n")
        for line in lines:
            self._take_line(line)
        # A child may print endlessly without a line break.
        if len(self._rest) > LONGEST:
            self._take_line(self._rest)
            self._rest = b""

    def _take_line(self, line: bytes) -> None:
        if not line.startswith(FIGURES):
            self._sink(line + b"\n")
            return
        try:
            self._on_figures(dict(json.loads(line.removeprefix(FIGURES))))
        # A line that only begins like a line of figures belongs in the log.
        except (ValueError, TypeError):
            self._sink(line + b"\n")
