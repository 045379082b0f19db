"""Sends chunks of weights to the peers that request them, at the rates of `server.chunk_queue`.

The newest chunks stay in memory, so a chunk that many peers request at about the same time is read once.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress

from protocol.errors import Code
from protocol.messages import CHUNK, GetChunk
from protocol.sessions import Session
from runtime.pacing import PaceLimits, place_of
from runtime.weights_pull import answer
from server.chunk_queue import TO_ALL, ChunkQueue
from server.port import Port, peer_of
from server.weights import WeightsStore

KEPT = 128
"""Chunks in memory, 64 MiB: a whole network of that size or less. Clients that hear of new weights together
request the same chunk within seconds."""


class ChunkService:
    """Connects queue and store. `port` is set once it exists."""

    port: Port

    def __init__(self, store: WeightsStore, clock: Callable[[], float], to_all: PaceLimits = TO_ALL) -> None:
        """`to_all`: limits of the bytes of weights to all clients together."""
        self._store = store
        self._clock = clock
        self._queue = ChunkQueue(lambda peer: not self.port.door.unsent(peer), to_all=to_all)
        self._read: OrderedDict[tuple[bytes, int], bytes] = OrderedDict()
        """Chunks by hash of the file and offset, least recently read first."""
        self._wake = asyncio.Event()
        """Set when a chunk was requested, or a peer has read what was sent."""

    def on_get_chunk(self, session: Session, message: GetChunk, _: list[memoryview]) -> None:
        peer = peer_of(session)
        place = place_of(session.owner, self.port.door.address(peer))
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
        """Send at most one chunk per turn of the event loop, so that leaves never wait behind a crowd of
        downloads."""
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
            except Exception as error:  # no file descriptor left, or a disk that cannot be read
                self.port.fault(peer, message, error)
            self._queue.sent(place, size, now)
            await asyncio.sleep(0)

    def _send(self, peer: bytes, message: GetChunk) -> int:
        """Send a chunk. Returns the number of bytes sent."""
        data = self._chunk(message.sha256, message.offset)
        if data is None:
            self.port.charge(peer)
        self.port.send(peer, *answer(message, data))
        return len(data or b"")

    def _chunk(self, sha256: bytes, offset: int) -> bytes | None:
        """Return what `WeightsStore.chunk` does, but read once while many request it: a hash names the bytes
        uniquely."""
        data = self._read.pop((sha256, offset), None) or self._store.chunk(sha256, offset)
        if data and not offset % CHUNK:  # other offsets are requested by one peer only
            self._read[sha256, offset] = data
            if len(self._read) > KEPT:
                self._read.popitem(last=False)
        return data
