"""A TCP proxy that treats bytes like bad networks: delays, stalls, half-closed connections, resets, changed
bytes.

One `Proxy` listens on one port and forwards to another. Its `weather` defines what it does, and may change at
any time. All randomness comes from one seed.
"""

from __future__ import annotations

import asyncio
import random
import socket
import struct
from dataclasses import dataclass, replace

READ = 16 * 1024
"""Bytes forwarded at a time."""
HOST = "127.0.0.1"
ON_THEIR_WAY = 256
"""Most pieces in transit in one direction."""


@dataclass(frozen=True)
class Bad:
    """What happens to each piece of bytes. Shares are of pieces, times are in seconds."""

    latency: float = 0.0
    jitter: float = 0.0
    """Added to the latency, uniformly distributed from 0."""
    piece: int = READ
    """Most bytes in a piece: 7 cuts every header."""
    flipped: float = 0.0
    """Share of pieces with one flipped bit."""
    repeated: float = 0.0
    """Share of pieces that come twice."""
    truncated: float = 0.0
    """Share of pieces of which only the first half comes, and then the connection ends."""
    reset: float = 0.0
    """Share of pieces at which the connection is reset, at both ends."""
    half_closed: float = 0.0
    """Share of pieces after which this side sends no more, while the other continues."""


@dataclass
class Counts:
    """Counts of what was done so far."""

    connections: int = 0
    pieces: int = 0
    bytes: int = 0
    flipped: int = 0
    repeated: int = 0
    truncated: int = 0
    resets: int = 0
    half_closed: int = 0


class Proxy:
    """`async with Proxy(port_to, port=...)`."""

    def __init__(self, target: int, port: int = 0, *, seed: int = 1) -> None:
        """Forward connections at `port` (0: any) to `target`, both on this machine."""
        self.target, self.port = target, port
        self.up = self.down = Bad()
        """The weather towards the target, and back from it."""
        self.counts = Counts()
        self._rng = random.Random(seed)
        self._flows = asyncio.Event()
        self._flows.set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Proxy:
        self._server = await asyncio.start_server(self._take_in, HOST, self.port, limit=READ)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for writer in list(self._writers):
            writer.close()

    def set(self, **bad: float) -> None:
        """Set the same weather in both directions; without arguments all is well."""
        self.up = self.down = replace(Bad(), **bad)  # type: ignore[arg-type]

    def stall(self) -> None:
        """Stop forwarding, without telling either side."""
        self._flows.clear()

    def go_on(self) -> None:
        """Resume forwarding, including what waited."""
        self._flows.set()

    def reset_all(self) -> int:
        """Reset every connection. Returns how many ends there were."""
        ends = len(self._writers)
        for writer in list(self._writers):
            _reset(writer)
        return ends

    async def _take_in(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.counts.connections += 1
        self._writers.add(writer)
        far: asyncio.StreamWriter | None = None
        try:
            far_reader, far = await asyncio.open_connection(HOST, self.target, limit=READ)
            self._writers.add(far)
            await asyncio.gather(
                self._pass(reader, far, writer, up=True), self._pass(far_reader, writer, far, up=False)
            )
        except OSError:
            pass
        finally:
            self._tasks.discard(task)
            for end in (writer, far):
                if end is not None:
                    self._writers.discard(end)
                    end.close()

    async def _pass(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        back: asyncio.StreamWriter,
        *,
        up: bool,
    ) -> None:
        """Forward one direction, until one side ends or the weather ends it. Several pieces may be in
        transit."""
        line: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(ON_THEIR_WAY)
        taking = asyncio.ensure_future(self._take(reader, line, up=up))
        try:
            while True:
                at, data = await line.get()
                await asyncio.sleep(max(0.0, at - asyncio.get_running_loop().time()))
                await self._flows.wait()
                if not data:
                    writer.write_eof()
                    return
                if not self._deliver(data, writer, back, self.up if up else self.down):
                    return
                await writer.drain()
        finally:
            taking.cancel()

    async def _take(
        self, reader: asyncio.StreamReader, line: asyncio.Queue[tuple[float, bytes]], *, up: bool
    ) -> None:
        """Read pieces and note when each should arrive, in order; b"" at the end."""
        data, arrives = b"-", 0.0
        while data:
            bad = self.up if up else self.down
            try:
                data = await reader.read(bad.piece)
            except OSError:
                data = b""
            delay = bad.latency + self._rng.uniform(0.0, bad.jitter)
            arrives = max(arrives, asyncio.get_running_loop().time() + delay)
            await line.put((arrives, data))

    def _deliver(
        self, data: bytes, writer: asyncio.StreamWriter, back: asyncio.StreamWriter, bad: Bad
    ) -> bool:
        """Forward a piece, or damage it. Returns False when nothing more will pass this way."""
        self.counts.pieces += 1
        self.counts.bytes += len(data)
        if self._happens(bad.reset):
            self.counts.resets += 1
            _reset(writer)
            _reset(back)
            return False
        if self._happens(bad.half_closed):
            self.counts.half_closed += 1
            writer.write_eof()
            return False
        if self._happens(bad.truncated):
            self.counts.truncated += 1
            writer.write(data[: len(data) // 2])
            writer.close()
            back.close()
            return False
        writer.write(self._changed(data, bad))
        return True

    def _changed(self, data: bytes, bad: Bad) -> bytes:
        if self._happens(bad.flipped):
            self.counts.flipped += 1
            changed = bytearray(data)
            changed[self._rng.randrange(len(data))] ^= 1 << self._rng.randrange(8)
            data = bytes(changed)
        if self._happens(bad.repeated):
            self.counts.repeated += 1
            data += data
        return data

    def _happens(self, share: float) -> bool:
        return share > 0 and self._rng.random() < share


def _reset(writer: asyncio.StreamWriter) -> None:
    """End a connection with RST: bytes in transit are lost, and the other side is told at once."""
    plain: socket.socket | None = writer.get_extra_info("socket")
    if plain is not None and not writer.transport.is_closing():
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()
