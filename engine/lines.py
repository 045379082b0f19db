"""Lines of standard input and output beside an event loop: a thread for each, because both may block.

The threads are daemons, so a process that ends does not wait for the other side of a pipe.
"""

from __future__ import annotations

import asyncio
import codecs
import os
import queue
import threading

Line = bytes | None
"""A line without its newline; None for a line over the limit, which was dropped."""

CHUNK = 64 * 1024
"""Bytes read at once."""
CHUNKS_AHEAD = 2
"""Chunks read ahead. While they are not taken, reading waits, and so does the writer."""


class LineSplitter:
    """Splits a stream at its newlines and never holds more than `limit` bytes of an unfinished line."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._begun = b""
        self._too_long = False
        self._is_first = True

    def feed(self, data: bytes) -> list[Line]:
        """The lines that `data` completes, without their newlines."""
        *ended, begun = data.split(b"\n")
        lines = [self._complete(part) for part in ended]
        self._begin(begun)
        return lines

    def finish(self) -> list[Line]:
        """The last line, if the stream ended without a newline."""
        return [self._complete(b"")] if self._begun or self._too_long else []

    def _begin(self, part: bytes) -> None:
        self._begun += part
        if len(self._begun) > self._limit:
            self._begun, self._too_long = b"", True

    def _complete(self, part: bytes) -> Line:
        self._begin(part)
        line = None if self._too_long else self._begun
        if self._is_first and line is not None:
            line = line.removeprefix(codecs.BOM_UTF8)  # as Windows programs write it
        self._is_first = False
        self._begun, self._too_long = b"", False
        return line


class OutputClosed(Exception):
    """The reader of our output has closed it."""


class Input:
    """Lines of a file descriptor. Made and used on the event loop."""

    def __init__(self, descriptor: int, limit: int) -> None:
        self._descriptor = descriptor
        self._splitter = LineSplitter(limit)
        self._loop = asyncio.get_running_loop()
        self._room = threading.Semaphore(CHUNKS_AHEAD)
        # Room for the chunks, for the end of the stream, and for `end`.
        self._chunks: asyncio.Queue[list[Line] | None] = asyncio.Queue(CHUNKS_AHEAD + 2)
        threading.Thread(target=self._read, name="stdin", daemon=True).start()

    async def lines(self) -> list[Line] | None:
        """The next lines, together; None at the end of the stream or after `end`."""
        lines = await self._chunks.get()
        self._room.release()
        return lines

    def end(self) -> None:
        """Stop reading: `lines` ends after the chunks already read. Call it once."""
        self._chunks.put_nowait(None)

    def _read(self) -> None:
        while True:
            self._room.acquire()
            try:
                data = os.read(self._descriptor, CHUNK)
            except OSError:
                data = b""  # a terminal that is gone
            lines = self._splitter.feed(data) if data else self._splitter.finish()
            try:
                if lines:
                    self._loop.call_soon_threadsafe(self._chunks.put_nowait, lines)
                else:
                    self._room.release()
                if not data:
                    self._loop.call_soon_threadsafe(self._chunks.put_nowait, None)
                    return
            except RuntimeError:
                return  # the loop is closed


class Output:
    """Writes to a file descriptor. Made and used on the event loop, one `write` at a time."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._loop = asyncio.get_running_loop()
        self._jobs: queue.Queue[tuple[bytes, asyncio.Future[None]]] = queue.Queue(1)
        threading.Thread(target=self._write, name="stdout", daemon=True).start()

    async def write(self, data: bytes) -> None:
        """Write all of `data`. Raises OutputClosed or another OSError."""
        future: asyncio.Future[None] = self._loop.create_future()
        self._jobs.put_nowait((data, future))
        await future

    def _write(self) -> None:
        error: BaseException | None = None
        while error is None:
            data, future = self._jobs.get()
            try:
                view = memoryview(data)
                while view:
                    view = view[os.write(self._descriptor, view) :]
            except BrokenPipeError:
                error = OutputClosed()
            except OSError as failure:
                error = failure
            try:
                self._loop.call_soon_threadsafe(_resolve, future, error)
            except RuntimeError:
                return  # the loop is closed


def _resolve(future: asyncio.Future[None], error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)
