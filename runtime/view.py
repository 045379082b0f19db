"""What a run looks like while it runs: a live table on a terminal, one plain line now and then elsewhere.

Fed with the figures of STATUS (keys in docs/protocol.md); any of them may be missing. Written to stderr, so
that stdout stays free for results. NO_COLOR is honoured.
"""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Mapping
from types import TracebackType
from typing import Any, TextIO

from rich.console import Console
from rich.live import Live
from rich.table import Table

from runtime.logs import RepeatFilter, as_line

PLAIN_EVERY = 30.0
"""Seconds between two plain lines."""

Figures = Mapping[str, Any]


def rows(figures: Figures) -> list[tuple[str, str]]:
    """Everything worth seeing, as (name, text) in reading order."""
    trainer: Figures = figures.get("trainer") or {}
    sessions: Figures = figures.get("sessions") or {}
    outcomes: Figures = trainer.get("outcomes") or {}
    losses = [_number(trainer.get(key), 3) for key in ("policy_loss", "value_loss")]
    return [
        ("games", f"{_count(trainer.get('games'))}  ({_count(trainer.get('games_per_h'))}/h)"),
        ("won, drawn, lost", " / ".join(_count(outcomes.get(key)) for key in ("first", "draw", "second"))),
        ("ended by", _reasons(trainer.get("reasons") or {})),
        ("evaluations/s", _count(figures.get("evals_per_s"))),
        ("mean batch", f"{_number(figures.get('mean_batch'), 1)} of {_count(figures.get('target_rows'))}"),
        ("queue wait", f"{_number(figures.get('queue_wait_ms'), 2)} ms"),
        ("window", f"{_count(trainer.get('window_positions'))} positions"),
        ("step", _count(trainer.get("step"))),
        ("loss", f"policy {losses[0]}, value {losses[1]}"),
        ("search", _search(trainer.get("search") or {})),
        ("samples per position", _number(trainer.get("samples_per_position"), 2)),
        ("weights version", _count(figures.get("weights_version"))),
        *(("gate", _gate(gate)) for gate in [figures.get("gate")] if gate),
        ("workers, clients", f"{_count(sessions.get('workers'))}, {_count(sessions.get('clients'))}"),
        ("trainer", _trainer_state(figures)),
        *_resignation(trainer.get("resignation") or {}),
        *(("alert", str(text)) for text in trainer.get("alerts") or ()),
    ]  # fmt: skip


def line(figures: Figures) -> str:
    """The most important of it in one line."""
    trainer: Figures = figures.get("trainer") or {}
    gate = f", gate {_gate(figures['gate'])}" if figures.get("gate") else ""
    alerts = "".join(f", ALERT {text}" for text in trainer.get("alerts") or ())
    sessions: Figures = figures.get("sessions") or {}
    return (
        f"games {_count(trainer.get('games'))} ({_count(trainer.get('games_per_h'))}/h)"
        f", evals/s {_count(figures.get('evals_per_s'))}, batch {_number(figures.get('mean_batch'), 1)}"
        f", queue {_number(figures.get('queue_wait_ms'), 2)} ms"
        f", window {_count(trainer.get('window_positions'))}, step {_count(trainer.get('step'))}"
        f", loss {_number(trainer.get('policy_loss'), 3)} + {_number(trainer.get('value_loss'), 3)}"
        f", weights {_count(figures.get('weights_version'))}{gate}"
        f", workers {_count(sessions.get('workers'))}, clients {_count(sessions.get('clients'))}"
        f", trainer {_trainer_state(figures)}{alerts}"
    )


def _gate(gate: Figures) -> str:
    """What plays against the best weights, and what came of those before."""
    done = f"{_count(gate.get('promoted'))} promoted, {_count(gate.get('rejected'))} rejected"
    if gate.get("candidate") is None:
        return f"waits for a candidate; {done}"
    score = _number(gate.get("score"), 3)
    return f"v{gate['candidate']} scores {score} in {_count(gate.get('games'))} games; {done}"


def _trainer_state(figures: Figures) -> str:
    if not (figures.get("sessions") or {}).get("trainer"):
        return "absent"
    if not figures.get("trainer"):
        return "starting"
    waiting_for = figures["trainer"].get("waiting_for")
    return f"waiting for {waiting_for}" if waiting_for else "training"


def _resignation(figures: Figures) -> list[tuple[str, str]]:
    """Where sides may resign: from which root value on, and how often that is a mistake."""
    if not figures:
        return []
    mistakes = figures.get("mistakes")
    rate = "-" if mistakes is None else f"{100 * mistakes:.1f} %"
    from_value = _number(figures.get("threshold") or None, 3)
    played_on = _count(figures.get("played_on"))
    return [("resignation", f"from {from_value}, mistakes {rate} of {played_on} games played on")]


def _search(search: Figures) -> str:
    """What searching adds to the network, in the newest games."""
    if search.get("kl") is None:
        return "-"
    differs = 100 * (search.get("differs") or 0.0)
    return f"KL {search['kl']:.2f}, {_number(search.get('moves'), 1)} moves, other choice {differs:.0f} %"


def _reasons(reasons: Figures) -> str:
    common = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{name.replace('_', ' ')} {_count(number)}" for name, number in common[:5]) or "-"


def _count(value: Any) -> str:
    return "-" if value is None else f"{round(value):,}"


def _number(value: Any, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


class View:
    """Shows figures as they come. A context manager: the terminal is given back at the end."""

    def __init__(self, title: str, stream: TextIO | None = None) -> None:
        self._title = title
        self._console = Console(file=stream or sys.stderr)
        self._said_at = float("-inf")
        self._live: Live | None = None
        if self._console.is_terminal and not self._console.is_dumb_terminal:
            self._live = Live(console=self._console, auto_refresh=False, transient=False)

    def __enter__(self) -> View:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def update(self, figures: Figures, now: float) -> None:
        """Redraw, or print a line if the last one is PLAIN_EVERY seconds old. `now` in seconds."""
        if self._live is not None:
            self._live.update(self._table(figures), refresh=True)
        elif now - self._said_at >= PLAIN_EVERY:
            self._said_at = now
            with contextlib.suppress(OSError):  # a file on a full disk
                self._console.file.write(as_line(f"{self._title}: {line(figures)}") + "\n")
                self._console.file.flush()

    def note(self, text: str) -> None:
        """Something that happened, above the table."""
        with contextlib.suppress(OSError):
            self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def warnings(self) -> logging.Handler:
        """A log handler that notes warnings above the table, for the eyes of whoever watches."""
        return _NotesWarnings(self)

    def _table(self, figures: Figures) -> Table:
        table = Table(title=self._title, show_header=False, title_justify="left", min_width=48)
        table.add_column(style="dim", no_wrap=True)
        table.add_column()
        for name, text in rows(figures):
            table.add_row(name, text)
        return table


class _NotesWarnings(logging.Handler):
    def __init__(self, view: View) -> None:
        super().__init__(logging.WARNING)
        self.addFilter(RepeatFilter())
        self._view = view

    def emit(self, record: logging.LogRecord) -> None:
        self._view.note(record.getMessage())
