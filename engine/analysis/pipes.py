"""Standard input and output beside an event loop: a thread each, because both may block for ever.

The threads are daemons: a process that is told to end does not wait for who types or reads.
"""

from __future__ import annotations

import asyncio
import os
import queue
import threading

from engine.analysis.splitting import Line, LineSplitter

CHUNK = 64 * 1024
"""Bytes read at once."""
CHUNKS_AHEAD = 2
"""Chunks read and not yet taken; then reading waits, and with it whoever writes."""


class OutputClosed(Exception):
    """Nobody reads our output any more."""


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
        """The next lines that came in together; None at the end of the stream, or after `end`."""
        lines = await self._chunks.get()
        self._room.release()
        return lines

    def end(self) -> None:
        """Take no more: `lines` ends after what was read already. Call once."""
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
                return  # the loop is closed: nobody wants more


class Output:
    """Writes to a file descriptor. Made and used on the event loop, one `write` at a time."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._loop = asyncio.get_running_loop()
        self._jobs: queue.Queue[tuple[bytes, asyncio.Future[None]]] = queue.Queue(1)
        threading.Thread(target=self._write, name="stdout", daemon=True).start()

    async def write(self, data: bytes) -> None:
        """Returns when all is written. Raises OutputClosed."""
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
