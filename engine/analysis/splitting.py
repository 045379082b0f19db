"""Bytes as they come from a pipe -> whole lines. Pure."""

from __future__ import annotations

Line = bytes | None
"""None stands for a line over the limit, which was passed over."""


class LineSplitter:
    """Cuts a stream at its newlines and never holds more than `limit` bytes of an unfinished line."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._begun = b""
        self._too_long = False

    def feed(self, data: bytes) -> list[Line]:
        """The lines that `data` completes, without their newlines."""
        *ended, begun = data.split(b"\n")
        lines = [self._complete(part) for part in ended]
        self._begin(begun)
        return lines

    def finish(self) -> list[Line]:
        """What is left at the end of the stream: a last line without a newline."""
        return [self._complete(b"")] if self._begun or self._too_long else []

    def _begin(self, part: bytes) -> None:
        self._begun += part
        if len(self._begun) > self._limit:
            self._begun, self._too_long = b"", True

    def _complete(self, part: bytes) -> Line:
        self._begin(part)
        line = None if self._too_long else self._begun
        self._begun, self._too_long = b"", False
        return line
