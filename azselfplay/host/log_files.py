"""Files for log lines and the output of children: bounded in size, and their errors never stop a process.

A full file is renamed to `NAME.1`, the one before it to `NAME.2`, and so on up to `BACKUPS`. Output that a
full disk does not take is dropped and counted; a line says so as soon as the disk can be written again.
"""

from __future__ import annotations

import contextlib
import logging
from datetime import datetime
from pathlib import Path

MAX_BYTES = 10_000_000
"""Most bytes in one file."""
BACKUPS = 3
"""Older files kept besides it: at most 40 MB in total for each log."""


class LogFile:
    """One rotating file. `write` never raises OSError."""

    def __init__(self, path: Path, max_bytes: int = MAX_BYTES, backups: int = BACKUPS) -> None:
        self.path = path
        self.dropped = 0
        """Bytes dropped since the last successful write."""
        self._max_bytes = max_bytes
        self._backups = backups

    def write(self, output: bytes) -> None:
        """Append the output whole, or drop it whole and count it."""
        notice = b""
        if self.dropped:
            text = f"... {self.dropped} bytes are missing here: the disk did not take them ...\n"
            notice = f"\n{datetime.now():%Y-%m-%d %H:%M:%S} {text}".encode()
        if self._append(notice + output):
            self.dropped = 0
        else:
            self.dropped += len(output)

    def _append(self, output: bytes) -> bool:
        """Append the output. Returns whether it was written."""
        try:
            self._rotate(len(output))
            append_whole(self.path, output)
        except OSError:
            return False
        return True

    def _rotate(self, coming: int) -> None:
        """Make room for `coming` bytes by renaming, which needs no space on the disk."""
        try:
            size = self.path.stat().st_size
        except FileNotFoundError:
            return
        if size == 0 or size + coming <= self._max_bytes:
            return
        for number in range(self._backups, 0, -1):
            older = self._numbered(number - 1)
            with contextlib.suppress(FileNotFoundError):
                older.replace(self._numbered(number))

    def _numbered(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{number}") if number else self.path


class LogFileHandler(logging.Handler):
    """Writes log lines to a `LogFile`."""

    def __init__(self, file: LogFile) -> None:
        super().__init__()
        self._file = file

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = self.format(record)
        except Exception:  # a wrong log call must not stop what it reports on
            self.handleError(record)
            return
        self._file.write(line.encode(errors="replace") + b"\n")


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
            file.truncate(before)
            raise
