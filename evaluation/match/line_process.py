"""A child process that speaks in lines: engines for USI and GTP."""

from __future__ import annotations

import asyncio
import contextlib
from asyncio.subprocess import DEVNULL, SubprocessStreamProtocol
from collections.abc import Sequence

from evaluation.match.engine_player import EngineError

LONGEST_LINE = 1 << 20
"""Most bytes in a line."""


class _Streams(SubprocessStreamProtocol):
    """Knows when the process has ended."""

    def __init__(self, limit: int, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(limit, loop)
        self.ended = asyncio.Event()

    def process_exited(self) -> None:
        super().process_exited()
        self.ended.set()


class LineProcess:
    """Lines to and from a process. `kill` it when done."""

    def __init__(self, transport: asyncio.SubprocessTransport, streams: _Streams) -> None:
        assert streams.stdin is not None, "started with pipes"
        assert streams.stdout is not None, "started with pipes"
        self._transport = transport
        self._input, self._output = streams.stdin, streams.stdout
        self._ended = streams.ended

    @classmethod
    async def start(cls, command: Sequence[str]) -> LineProcess:
        """Start a process. Raises OSError if it cannot be run."""
        loop = asyncio.get_running_loop()
        transport, streams = await loop.subprocess_exec(
            lambda: _Streams(LONGEST_LINE, loop), *command, stderr=DEVNULL
        )
        return cls(transport, streams)

    async def send(self, line: str) -> None:
        """Send a line. Raises OSError if the process has ended."""
        self._input.write(line.encode() + b"\n")
        await self._input.drain()

    async def line(self) -> str:
        """The next line, without its end. Raises EngineError if the process has ended or the line is too
        long."""
        try:
            read = await self._output.readline()
        except ValueError as error:
            raise EngineError(f"a line of more than {LONGEST_LINE} bytes") from error
        if not read:
            raise EngineError("the engine has ended: its process died")
        return read.decode(errors="replace").rstrip("\r\n")

    async def ended(self) -> None:
        """Wait until the process has ended. Its remaining output is dropped."""
        while await self._output.read(LONGEST_LINE):
            pass
        await self._ended.wait()

    def kill(self) -> None:
        """End the process at once, if it has not ended."""
        with contextlib.suppress(ProcessLookupError):
            self._transport.kill()
        self._transport.close()
