"""Standard input as lines, read by a thread: a pipe, a terminal or a file, whatever the other side sends."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import os
import threading

LONGEST = 1 << 16
"""Bytes of a line; the moves of the longest games take a tenth of it."""
CHUNK = 1 << 16


class LineSplitter:
    """Bytes in, lines out. A line that is too long is thrown away and told about, whatever is in it."""

    def __init__(self, longest: int = LONGEST) -> None:
        self._longest = longest
        self._rest = b""
        self._is_skipping = False

    def feed(self, data: bytes) -> list[str | None]:
        """The lines that ended in `data`; None for one that was too long."""
        *ended, rest = (self._rest + data).split(b"\n")
        lines = [self._line(part) for part in ended]
        if len(rest) > self._longest:
            self._is_skipping, rest = True, b""
        self._rest = rest
        return lines

    def _line(self, part: bytes) -> str | None:
        too_long = self._is_skipping or len(part) > self._longest
        self._is_skipping = False
        return None if too_long else part.decode("utf-8", errors="replace")


def read_lines(descriptor: int, lines: asyncio.Queue[str | None], too_long: str) -> None:
    """Start a thread that puts lines into the queue, waiting while it is full; None at the end.

    `too_long` stands in for a line that was too long. The thread does not hold up the end of the process.
    """
    loop = asyncio.get_running_loop()

    def put(line: str | None) -> None:
        coroutine = lines.put(line)
        try:
            asyncio.run_coroutine_threadsafe(coroutine, loop).result()
        finally:
            coroutine.close()

    def work() -> None:
        splitter = LineSplitter()
        with contextlib.suppress(RuntimeError, concurrent.futures.CancelledError):  # the loop has ended
            while data := _read(descriptor):
                for line in splitter.feed(data):
                    put(too_long if line is None else line)
            put(None)

    threading.Thread(target=work, name="input", daemon=True).start()


def _read(descriptor: int) -> bytes:
    """What is there, waiting for something; nothing when input is over or broken."""
    try:
        return os.read(descriptor, CHUNK)
    except OSError:
        return b""
