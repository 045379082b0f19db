"""Shows a run while it runs: a live table on a terminal, elsewhere one plain line now and then.

It gets the figures of STATUS. It writes to stderr, so that stdout stays free for results. NO_COLOR is
respected.
"""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Iterator
from types import TracebackType
from typing import TextIO

from rich.console import Console
from rich.live import Live
from rich.table import Table

from azselfplay.host.figures_text import Figures, line, rows
from azselfplay.host.logs import RepeatFilter, as_line

PLAIN_EVERY = 30.0
"""Seconds between two plain lines."""


class View:
    """Shows figures as they come. A context manager: the terminal is restored at the end."""

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
            with self._while_it_is_there():
                self._live.stop()

    def update(self, figures: Figures, now: float) -> None:
        """Redraw the table, or print a line if the last one is PLAIN_EVERY seconds old. `now` in seconds."""
        if self._live is not None:
            with self._while_it_is_there():
                self._live.update(self._table(figures), refresh=True)
        elif now - self._said_at >= PLAIN_EVERY:
            self._said_at = now
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
        """Draw no more once the terminal is gone, as after a logout: rich keeps what it could not write."""
        try:
            yield
        except OSError:
            live, self._live = self._live, None
            with contextlib.suppress(OSError):
                if live is not None:
                    live.stop()  # gives sys.stderr back

    def warnings(self) -> logging.Handler:
        """Return a log handler that shows warnings above the table."""
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
