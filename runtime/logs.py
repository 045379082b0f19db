"""One line per event, to stderr and to a file in the run folder: plain text, or one JSON object."""

from __future__ import annotations

import json
import logging
import math
import sys
from collections import Counter
from collections.abc import Hashable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from runtime.log_files import LogFile, LogFileHandler

DATE_FORMAT = "%Y-%m-%d %H:%M:%S"
"""Local time."""
LINES, WINDOW = 20, 60.0
"""Lines of one kind written in so many seconds; further ones are counted."""
KINDS = 1000
"""Kinds of lines that are remembered; there are some 200 places that log."""
COUNTED = "counted"
"""Attribute of a record that `Repeated` has counted already."""
Form = Literal["text", "json"]
"""Of the lines (`--log-format`)."""
FORMAT = "%(asctime)s %(levelname).1s %(process_name)s  %(message)s"


def set_up(name: str, file: Path | None = None, *, quiet: bool = False, form: Form = "text") -> None:
    """Log to stderr (not if `quiet`) and to `file`, each line with date, time, level and process name."""
    formatter: logging.Formatter = JsonFormatter(name)
    if form == "text":
        formatter = CountingFormatter(FORMAT, datefmt=DATE_FORMAT, defaults={"process_name": name})
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
        handler.addFilter(RepeatFilter())
        root.addHandler(handler)
    root.setLevel(logging.INFO)
    # What no line of ours says need not be found out for each: half of what a line costs that is not
    # written (Python's logging HOWTO, "Optimization").
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    logging._srcfile = None


class Allowance:
    """How often lines of one kind may be written: `lines` in `window` seconds; others are counted. Pure."""

    def __init__(self, lines: int = LINES, window: float = WINDOW) -> None:
        self._lines, self._window = lines, window
        self._begun: dict[Hashable, float] = {}
        self._written: Counter[Hashable] = Counter()
        self._unsaid: Counter[Hashable] = Counter()

    def admit(self, kind: Hashable, now: float) -> int | None:
        """None: do not write this line. Else the number of lines of its kind left out before it."""
        if now - self._begun.get(kind, float("-inf")) >= self._window:
            if len(self._begun) >= KINDS:
                self._begun.clear()
                self._written.clear()
                self._unsaid.clear()
            self._begun[kind], self._written[kind] = now, 0
        if self._written[kind] >= self._lines:
            self._unsaid[kind] += 1
            return None
        self._written[kind] += 1
        return self._unsaid.pop(kind, 0)


class RepeatFilter(logging.Filter):
    """Keeps what peers or repeated faults can trigger from filling a log. A kind is one place in the code
    that logs: its logger, level and text before the values are put in."""

    def __init__(self) -> None:
        super().__init__()
        self._allowance = Allowance()

    def filter(self, record: logging.LogRecord) -> bool:
        if getattr(record, COUNTED, False):
            return True
        unsaid = self._allowance.admit((record.name, record.levelno, record.msg), record.created)
        record.unsaid = unsaid
        return unsaid is not None


class CountingFormatter(logging.Formatter):
    """Says behind a line how many of its kind `RepeatFilter` has left out before it."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 (logging's name)
        unsaid = getattr(record, "unsaid", 0)
        more = f" (and {unsaid} more like it before)" if unsaid else ""
        return on_one_line(super().formatMessage(record) + more)


class JsonFormatter(logging.Formatter):
    """A line is one JSON object (docs/metrics.md). `kind` is the text before its values are put in, so that
    lines about the same thing can be told by it whatever their values are."""

    def __init__(self, process: str) -> None:
        super().__init__()
        self._process = process

    def format(self, record: logging.LogRecord) -> str:
        args = record.args.values() if isinstance(record.args, Mapping) else record.args or ()
        entry: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "process": self._process,
            "event": record.getMessage(),
            "logger": record.name,
            "kind": str(record.msg),
            "values": [_json_value(value) for value in args],
        }
        if unsaid := getattr(record, "unsaid", 0):
            entry["left_out"] = unsaid
        if record.exc_info:
            entry["traceback"] = self.formatException(record.exc_info)
        return json.dumps(entry)


def _json_value(value: object) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # JSON has neither NaN nor infinity
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def as_line(text: str, level: int = logging.INFO) -> str:
    """`text`, which goes past the log, as a line of the form that the log has."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler.formatter, JsonFormatter):
            return handler.formatter.format(logging.LogRecord("root", level, "", 0, text, None, None))
    return text


def event_in(line: str) -> str:
    """What a line of a log says, in whichever form it is."""
    if line.startswith("{"):
        try:
            event = json.loads(line)["event"]
        except (ValueError, KeyError):
            return line
        return str(event)
    return line


def on_one_line(text: str) -> str:
    """`text` with ends of lines, escape sequences and the like written as escapes: a name that a peer gives
    itself shall neither look like a line of ours nor steer the terminal. A traceback is added after this."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text
    )


class Sparing:
    """Says what peers can trigger up to `LINES` times in `WINDOW`, as `RepeatFilter` would, but decides
    before a record is made, so that a line that is not written costs next to nothing."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._allowance = Allowance()

    def info(self, now: float, text: str, *values: object) -> None:
        """`text`, which tells the kind of line, with its values put in (`%s`)."""
        unsaid = self._allowance.admit(text, now)
        if unsaid is not None:
            self._log.info(text, *values, extra={COUNTED: True, "unsaid": unsaid})


class Repeated:
    """Says a message that may come thousands of times a minute only now and then, with its count."""

    def __init__(self, log: logging.Logger, every: float = 30.0) -> None:
        """`every`: seconds between two lines about the same kind."""
        self._log = log
        self._allowance = Allowance(1, every)

    def warning(self, kind: str, text: str, now: float) -> None:
        """Log `text` unless a line about `kind` was logged less than `every` seconds before `now`."""
        self._tell(logging.WARNING, kind, text, now)

    def info(self, kind: str, text: str, now: float) -> None:
        """As `warning`, of what is no cause for concern."""
        self._tell(logging.INFO, kind, text, now)

    def _tell(self, level: int, kind: str, text: str, now: float) -> None:
        unsaid = self._allowance.admit(kind, now)
        if unsaid is not None:
            more = f" (and {unsaid} more like it)" if unsaid else ""
            self._log.log(level, "%s%s", text, more, extra={COUNTED: True})
