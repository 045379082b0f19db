"""Sends chunks of weights to whoever asks for them, as fast as `server.chunk_queue` says.

What many ask for at about the same time is read once: the newest chunks stay in memory.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress

from protocol.errors import Code
from protocol.messages import CHUNK, Chunk, GetChunk
from protocol.sessions import Session
from runtime.pacing import PaceLimits
from server.chunk_queue import TO_ALL, ChunkQueue
from server.port import Port, peer_of
from server.weights import WeightsStore

KEPT = 128
"""Chunks, 64 MiB: all of a network that is not larger. Clients that were told of weights together ask for the
same chunk within seconds."""


class ChunkService:
    """Joins queue and store. `port` is set once it exists."""

    port: Port

    def __init__(self, store: WeightsStore, clock: Callable[[], float], to_all: PaceLimits = TO_ALL) -> None:
        """`to_all`: bytes of weights to all clients together."""
        self._store = store
        self._clock = clock
        self._queue = ChunkQueue(lambda peer: not self.port.door.unsent(peer), to_all=to_all)
        self._read: OrderedDict[tuple[bytes, int], bytes] = OrderedDict()
        """By hash of the file and offset, read longest ago first."""
        self._wake = asyncio.Event()
        """A chunk was asked for, or somebody has read what was sent."""

    def on_get_chunk(self, session: Session, message: GetChunk, _: list[memoryview]) -> None:
        peer = peer_of(session)
        place = f"key {session.owner}" if session.owner else self.port.door.address(peer)
        if self._queue.has(peer, place, message):
            self.port.charge(peer)
        elif self._queue.put(peer, place, message):
            self._wake.set()
        else:
            reason = "too many chunks asked for"
            self.port.refuse(peer, Code.BUSY, reason, message.offset, retry_after=1.0)

    def session_ended(self, session: Session) -> None:
        self._queue.forget(peer_of(session))

    def tick(self, now: float) -> None:
        self._queue.tidy(now)

    async def run(self) -> None:
        """At most one chunk a turn of the loop, so that leaves never wait behind a crowd of pullers."""
        self.port.door.on_drained = self._wake.set
        while True:
            now = self._clock()
            taken = self._queue.take(now)
            if taken is None:
                self._wake.clear()
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._queue.wait(now)):
                        await self._wake.wait()
                continue
            peer, place, message = taken
            size = 0
            try:
                size = self._send(peer, message)
            except Exception as error:  # no descriptor left, a disk that does not read
                self.port.fault(peer, message, error)
            self._queue.sent(place, size, now)
            await asyncio.sleep(0)

    def _send(self, peer: bytes, message: GetChunk) -> int:
        """Bytes sent."""
        data = self._chunk(message.sha256, message.offset)
        if data is None:
            reason = "these weights are no longer kept: ask for the current ones"
            self.port.refuse(peer, Code.UNKNOWN_WEIGHTS, reason, message.offset)
            return 0
        self.port.send(peer, Chunk(message.sha256, message.offset), data)
        return len(data)

    def _chunk(self, sha256: bytes, offset: int) -> bytes | None:
        """As `WeightsStore.chunk`, and read once while many ask for it: no bytes have two hashes."""
        data = self._read.pop((sha256, offset), None) or self._store.chunk(sha256, offset)
        if data and not offset % CHUNK:  # others begin where nobody else does
            self._read[sha256, offset] = data
            if len(self._read) > KEPT:
                self._read.popitem(last=False)
        return data
