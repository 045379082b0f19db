"""The figures of STATUS as text for people: rows of a table, one line, or (`View`) a live table on a
terminal.

The keys are those in docs/protocol.md, and `troubles`: the last errors of azrun's parts, by part. Any key may
be missing. rich is imported only for a live table, because a small client does not have it.
"""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TextIO

from azselfplay.host.aio import Faults
from azselfplay.host.logs import RepeatFilter, as_line

if TYPE_CHECKING:
    from rich.live import Live

Figures = Mapping[str, Any]

PLAIN_EVERY = 30.0
"""Seconds between two plain lines."""
log = logging.getLogger(__name__)


def trainer_of(figures: Figures) -> Figures:
    """Return the trainer's figures; of one that has left, without those that speak of the present. Figures
    from a run's folder have no sessions and stay as they are."""
    trainer: Figures = figures.get("trainer") or {}
    has_left = not (figures.get("sessions") or {}).get("trainer", 1)
    return {**trainer, "games_per_h": None, "alerts": []} if has_left else trainer


def rows(figures: Figures) -> list[tuple[str, str]]:
    """Return everything worth seeing, as (name, text) in reading order."""
    trainer = trainer_of(figures)
    sessions: Figures = figures.get("sessions") or {}
    outcomes: Figures = trainer.get("outcomes") or {}
    reasons: Figures = trainer.get("reasons") or {}
    # The five most frequent ways in which games end. Ties are sorted by name, so that lines do not jump.
    common = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))[:5]
    ended = ", ".join(f"{name.replace('_', ' ')} {_count(number)}" for name, number in common)
    losses = [_number(trainer.get(key), 3) for key in ("policy_loss", "value_loss")]
    shown = [("preparing", _preparing(figures))] if figures.get("preparing") else []
    shown += [
        ("games", f"{_count(trainer.get('games'))}  ({_count(trainer.get('games_per_h'))}/h)"),
        ("won, drawn, lost", " / ".join(_count(outcomes.get(key)) for key in ("first", "draw", "second"))),
        ("ended by", ended or "-"),
        ("evaluations/s", _count(figures.get("evals_per_s"))),
    ]
    # If the players evaluate the network themselves, the server computes no batches.
    if not figures.get("players_evaluate"):
        batch = f"{_number(figures.get('mean_batch'), 1)} of {_count(figures.get('target_rows'))}"
        shown += [("mean batch", batch), ("queue wait", f"{_number(figures.get('queue_wait_ms'), 2)} ms")]
    # How far the search's result differs from the raw network's, in the newest games.
    search: Figures = trainer.get("search") or {}
    adds = "-"
    if search.get("kl") is not None:
        differs = 100 * (search.get("differs") or 0.0)
        adds = f"KL {search['kl']:.2f}, {_number(search.get('moves'), 1)} moves, other choice {differs:.0f} %"
    shown += [
        ("window", f"{_count(trainer.get('window_positions'))} positions"),
        ("step", _count(trainer.get("step"))),
        ("loss", f"policy {losses[0]}, value {losses[1]}"),
        ("search", adds),
        ("samples per position", _number(trainer.get("samples_per_position"), 2)),
        ("weights version", _count(figures.get("weights_version"))),
    ]
    if gate := figures.get("gate"):
        shown.append(("gate", _gate(gate)))
    players = ", ".join(_count(sessions.get(kind)) for kind in ("workers", "clients"))
    shown += [("workers, clients", players), ("trainer", _trainer_state(figures))]
    # If sides may resign: the threshold, and how often resigning would be a mistake.
    if resignation := trainer.get("resignation"):
        mistakes = resignation.get("mistakes")
        rate = "-" if mistakes is None else f"{100 * mistakes:.1f} %"
        from_value = _number(resignation.get("threshold") or None, 3)
        resigned, played_on = (_count(resignation.get(name)) for name in ("would_resign", "played_on"))
        mistakes = f"mistakes {rate} of {resigned} that would resign, {played_on} played on"
        shown.append(("resignation", f"from {from_value}, {mistakes}"))
    shown += [("alert", str(text)) for text in trainer.get("alerts") or ()]
    shown += [(f"{part} FAILS", str(text)) for part, text in (figures.get("troubles") or {}).items()]
    return shown


def line(figures: Figures) -> str:
    """Return the most important figures in one line. Before any game is played, the line says what is being
    prepared."""
    troubles = "".join(f", {part} FAILS: {text}" for part, text in (figures.get("troubles") or {}).items())
    if figures.get("preparing"):
        return _preparing(figures) + troubles
    trainer = trainer_of(figures)
    gate = f", gate {_gate(figures['gate'])}" if figures.get("gate") else ""
    alerts = "".join(f", ALERT {text}" for text in trainer.get("alerts") or ())
    sessions: Figures = figures.get("sessions") or {}
    batches = (
        f", batch {_number(figures.get('mean_batch'), 1)}"
        f", queue {_number(figures.get('queue_wait_ms'), 2)} ms"
    )
    return (
        f"games {_count(trainer.get('games'))} ({_count(trainer.get('games_per_h'))}/h)"
        f", evals/s {_count(figures.get('evals_per_s'))}{'' if figures.get('players_evaluate') else batches}"
        f", window {_count(trainer.get('window_positions'))}, step {_count(trainer.get('step'))}"
        f", loss {_number(trainer.get('policy_loss'), 3)} + {_number(trainer.get('value_loss'), 3)}"
        f", weights {_count(figures.get('weights_version'))}{gate}"
        f", workers {_count(sessions.get('workers'))}, clients {_count(sessions.get('clients'))}"
        f", trainer {_trainer_state(figures)}{alerts}{troubles}"
    )


def _preparing(figures: Figures) -> str:
    return f"{figures['preparing']}: {_count(figures.get('preparing_s'))} s so far"


def _gate(gate: Figures) -> str:
    """Describe the candidate that plays against the best weights, and the results of earlier ones."""
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


def _count(value: Any) -> str:
    return "-" if value is None else f"{round(value):,}"


def _number(value: Any, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def aligned(rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """Return columns as wide as their widest cell: the first `left` are aligned left, the others right.

    All rows have the same number of cells; the first row holds the headings.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if place < left else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


# ---- Live ----------------------------------------------------------------------------------------


class View:
    """Shows figures as they come: a live table on a terminal, or one plain line now and then elsewhere. A
    context manager: the terminal is restored at the end.

    It writes to stderr, so that stdout stays free for results. NO_COLOR is respected.
    """

    def __init__(self, title: str, stream: TextIO | None = None) -> None:
        from rich.console import Console

        self._title = title
        self._console = Console(file=stream or sys.stderr)
        self._printed_at = float("-inf")
        self._faults = Faults(log)
        self._live: Live | None = None
        # In a file or on a dumb terminal, a table that is redrawn would be noise.
        if self._console.is_terminal and not self._console.is_dumb_terminal:
            from rich.live import Live

            self._live = Live(console=self._console, auto_refresh=False, transient=False)

    def __enter__(self) -> View:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            with self._while_it_is_there():
                self._live.stop()

    def update(self, figures: Figures, now: float) -> None:
        """Redraw the table, or print a line if the last one is PLAIN_EVERY seconds old. `now` in seconds."""
        # The trainer's figures come from another machine, and may be of any kind.
        with self._faults.survived("the view"):
            if self._live is not None:
                from rich.table import Table
                from rich.text import Text

                # `Text`, because rich reads [words] in a plain string as markup.
                title = Text(self._title, "table.title")
                table = Table(title=title, show_header=False, title_justify="left", min_width=48)
                table.add_column(style="dim", no_wrap=True)
                table.add_column()
                for row in rows(figures):
                    table.add_row(*map(Text, row))
                with self._while_it_is_there():
                    self._live.update(table, refresh=True)
            elif now - self._printed_at >= PLAIN_EVERY:
                self._printed_at = now
                self._write(as_line(f"{self._title}: {line(figures)}"))

    def note(self, text: str) -> None:
        """Show an event above the table."""
        if self._live is None:
            self._write(text)
            return
        with self._while_it_is_there():
            self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError):  # stderr may be a file on a full disk
            self._console.file.write(text + "\n")
            self._console.file.flush()

    @contextlib.contextmanager
    def _while_it_is_there(self) -> Iterator[None]:
        """Stop drawing once the terminal is gone, for example after a logout: rich would keep the output that
        it could not write."""
        try:
            yield
        except OSError:
            # Reset this first, so that later calls do not draw.
            live, self._live = self._live, None
            with contextlib.suppress(OSError):
                if live is not None:
                    live.stop()  # gives sys.stderr back

    def notes(self, level: int = logging.WARNING, formatter: logging.Formatter | None = None) -> Notes:
        """Return a log handler that shows events of at least `level` above the table. It is a context manager
        and handles events while entered."""
        return Notes(self, level, formatter)


class Notes(logging.Handler):
    """Shows what this process logs above a view."""

    def __init__(self, view: View, level: int, formatter: logging.Formatter | None) -> None:
        super().__init__(level)
        self.setFormatter(formatter)
        self.addFilter(RepeatFilter())
        self._view = view

    def __enter__(self) -> None:
        logging.getLogger().addHandler(self)

    def __exit__(self, *_: object) -> None:
        logging.getLogger().removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        # Without a formatter, show only the message: a traceback would push the table off the screen.
        self._view.note(self.format(record) if self.formatter else record.getMessage())
