"""One plain line per event, with date and time, to stderr and to a file in the run folder."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

from runtime.log_files import LogFile, LogFileHandler

DATE_FORMAT = "%Y-%m-%d %H:%M:%S"
"""Local time."""
FORMAT = "%(asctime)s %(levelname).1s %(process_name)s  %(message)s"


def set_up(name: str, file: Path | None = None, *, quiet: bool = False) -> None:
    """Log to stderr (not if `quiet`) and to `file`, each line with date, time, level and process name."""
    formatter = logging.Formatter(FORMAT, datefmt=DATE_FORMAT, defaults={"process_name": name})
    handlers: list[logging.Handler] = [] if quiet else [logging.StreamHandler(sys.stderr)]
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        handlers.append(LogFileHandler(LogFile(file)))
    root = logging.getLogger()
    for old in root.handlers[:]:
        root.removeHandler(old)
        old.close()
    for handler in handlers:
        handler.setFormatter(formatter)
        root.addHandler(handler)
    root.setLevel(logging.INFO)


class Repeated:
    """Says a message that may come thousands of times a minute only now and then, with its count."""

    def __init__(self, log: logging.Logger, every: float = 30.0) -> None:
        """`every`: seconds between two lines about the same kind."""
        self._log = log
        self._every = every
        self._last: dict[str, float] = {}
        self._unsaid: dict[str, int] = {}

    def warning(self, kind: str, text: str, now: float) -> None:
        """Log `text` unless a line about `kind` was logged less than `every` seconds before `now`."""
        unsaid = self._unsaid.get(kind, 0)
        if now - self._last.get(kind, float("-inf")) < self._every:
            self._unsaid[kind] = unsaid + 1
            return
        self._log.warning("%s%s", text, f" (and {unsaid} more like it)" if unsaid else "")
        self._last[kind] = now
        self._unsaid[kind] = 0
