"""Logs: one line per event, to stderr and to a file in the run folder, as plain text or as one JSON object.

Repeated messages from peers or faults must not fill a log: `RepeatFilter` limits the lines from each place in
the code. `LogFile` bounds the size of the files.
"""

from __future__ import annotations

import json
import logging
import math
import sys
from collections import Counter
from collections.abc import Hashable, Mapping
from datetime import UTC, datetime
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any, Literal

DATE_FORMAT = "%Y-%m-%d %H:%M:%S"
"""Format of local time."""
LINES, WINDOW = 10, 60.0
"""At most LINES lines of one kind are written in WINDOW seconds; further ones are only counted."""
KINDS = 1000
"""Most kinds of lines that are remembered; about 200 places in the code write to the log."""
Form = Literal["text", "json"]
"""Format of the lines (`--log-format`)."""
MAX_BYTES = 10_000_000
"""Most bytes in one log file."""
BACKUPS = 3
"""Number of older files that are kept beside the current one: at most 40 MB in total for each log."""
FORMAT = "%(asctime)s %(levelname).1s %(process_name)s  %(message)s"


def set_up(name: str, file: Path | None = None, *, quiet: bool = False, form: Form = "text") -> None:
    """Log to stderr (not if `quiet`) and to `file`, each line with date, time, level and process name."""
    formatter: logging.Formatter = JsonFormatter(name)
    if form == "text":
        formatter = CountingFormatter(FORMAT, datefmt=DATE_FORMAT, defaults={"process_name": name})
    handlers: list[logging.Handler] = [] if quiet else [logging.StreamHandler(sys.stderr)]
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        handlers.append(LogFile(file))
    for handler in handlers:
        handler.setFormatter(formatter)
        handler.addFilter(RepeatFilter())
    # `set_up` may be called twice: first for stderr only, and again once there is a run folder.
    logging.basicConfig(handlers=handlers, level=logging.INFO, force=True)
    # Do not collect data that our lines never show: collecting it is half the cost of a line that is not
    # written (Python's logging HOWTO, "Optimization").
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    logging._srcfile = None


class Allowance:
    """Allows LINES lines of one kind in WINDOW seconds; further lines are only counted. Pure."""

    def __init__(self) -> None:
        self._window_start: dict[Hashable, float] = {}
        self._written: Counter[Hashable] = Counter()
        self._unsaid: Counter[Hashable] = Counter()

    def admit(self, kind: Hashable, now: float) -> int | None:
        """Return None if this line must not be written, else the number of lines of its kind left out before
        it."""
        if not 0 <= now - self._window_start.get(kind, float("-inf")) < WINDOW:  # a clock may be set back
            # Texts that peers choose must not fill the memory. Forgetting all kinds lets a few more lines
            # through.
            if len(self._window_start) >= KINDS:
                self._window_start.clear()
                self._written.clear()
                self._unsaid.clear()
            self._window_start[kind], self._written[kind] = now, 0
        if self._written[kind] >= LINES:
            self._unsaid[kind] += 1
            return None
        self._written[kind] += 1
        return self._unsaid.pop(kind, 0)


class RepeatFilter(logging.Filter):
    """Prevents peers or repeated faults from filling a log. Lines are of the same kind if they have the same
    logger, level, and text before the values are inserted."""

    def __init__(self) -> None:
        super().__init__()
        self._allowance = Allowance()

    def filter(self, record: logging.LogRecord) -> bool:
        unsaid = self._allowance.admit((record.name, record.levelno, record.msg), record.created)
        record.unsaid = unsaid
        return unsaid is not None


class CountingFormatter(logging.Formatter):
    """Appends to a line how many lines of its kind `RepeatFilter` has left out before it."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 (logging's name)
        unsaid = getattr(record, "unsaid", 0)
        more = f" (and {unsaid} more like it before)" if unsaid else ""
        return on_one_line(super().formatMessage(record) + more)


class JsonFormatter(logging.Formatter):
    """Formats a line as one JSON object (docs/metrics.md). `kind` identifies lines about the same thing
    whatever their values are: the text before its values are inserted."""

    def __init__(self, process: str) -> None:
        super().__init__()
        self._process = process

    def format(self, record: logging.LogRecord) -> str:

        def plain(value: object) -> object:
            if isinstance(value, float) and not math.isfinite(value):
                return str(value)  # JSON has neither NaN nor infinity
            return value if value is None or isinstance(value, bool | int | float | str) else str(value)

        args = record.args.values() if isinstance(record.args, Mapping) else record.args or ()
        entry: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "process": self._process,
            "event": record.getMessage(),
            "logger": record.name,
            "kind": str(record.msg),
            "values": [plain(value) for value in args],
        }
        if unsaid := getattr(record, "unsaid", 0):
            entry["left_out"] = unsaid
        if record.exc_info:
            entry["traceback"] = self.formatException(record.exc_info)
        return json.dumps(entry)


def as_line(text: str, level: int = logging.INFO) -> str:
    """Return `text`, which bypasses the log, as a line in the log's format."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler.formatter, JsonFormatter):
            return handler.formatter.format(logging.LogRecord("root", level, "", 0, text, None, None))
    return text


def event_in(line: str) -> str:
    """Return the message of a log line, in either format."""
    if line.startswith("{"):
        try:
            event = json.loads(line)["event"]
        except (ValueError, KeyError):
            return line
        return str(event)
    return line


def on_one_line(text: str) -> str:
    """Return `text` with line breaks, escape sequences and the like escaped: a name that a peer gives itself
    must neither look like a line of ours nor control the terminal. A traceback is added after this."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text
    )


# ---- Files ---------------------------------------------------------------------------------------


class LogFile(RotatingFileHandler):
    """One rotating file. As a handler it takes log lines; `write` takes the output of child processes.

    A full file is renamed to `NAME.1`, the one before it to `NAME.2`, and so on. A full or failing disk never
    stops the process: output that cannot be written is dropped and counted, and a line says so as soon as the
    disk can be written again.
    """

    def __init__(self, path: Path, max_bytes: int = MAX_BYTES, backups: int = BACKUPS) -> None:
        # Never opened as a stream: output that a full disk leaves in the stream's buffer would be written
        # later, or only in part.
        super().__init__(path, maxBytes=max_bytes, backupCount=backups, delay=True)
        self.path = path
        self.dropped = 0
        """Bytes dropped since the last successful write."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = self.format(record)
        except Exception:  # a wrong log call must not stop the code that logs
            self.handleError(record)
            return
        self.write(line.encode(errors="replace") + b"\n")

    def write(self, output: bytes) -> None:
        """Append the output whole, or drop it whole and count it. Never raises OSError."""
        whole = output
        if self.dropped:
            text = f"... {self.dropped} bytes are missing here: the disk did not take them ..."
            whole = f"\n{datetime.now():{DATE_FORMAT}} {text}\n".encode() + output
        try:
            size = self.path.stat().st_size if self.path.exists() else 0
            # The first line of a file is written however long it is.
            if size and size + len(whole) > self.maxBytes:
                self.doRollover()  # by renaming, which needs no space on the disk
            append_whole(self.path, whole)
        except OSError:
            self.dropped += len(output)
        else:
            self.dropped = 0


def append_whole(path: Path, data: bytes) -> None:
    """Append all of `data`, or nothing of it. Raises OSError when it cannot be written.

    Only for files with one writer. No fsync: a crash of the machine may lose what was written last.
    """
    with path.open("ab", buffering=0) as file:
        before = file.tell()
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[file.write(rest) :]
        except OSError:
            file.truncate(before)  # part of a line would spoil the next line
            raise
