"""Chunks of weights that were asked for and wait to be sent: so many bytes a second to each address. Pure.

Weights are the only answer that is larger than the question, by a factor of ten thousand. Addresses take
turns, and so do the peers at one address. What is beyond an address's pace waits, and so does who has not
read the chunk before; nothing is lost. This machine's own processes do not wait for a pace.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field

from protocol.messages import GetChunk
from runtime.pacing import MEGABYTE, AddressPaces, PaceLimits

TO_ADDRESS = PaceLimits(rate=32.0 * MEGABYTE, burst=64.0 * MEGABYTE)
"""Bytes: AlphaZero's network (90 MB) takes a second, eight clients at one address get it within 20 s."""
LEAST_PRICE = 256 * 1024
"""Bytes that a chunk counts for at least: to look for it and to open its file."""
MOST_CHUNKS = 8
"""That may wait for one peer (`docs/protocol.md`)."""
MOST_OF_ADDRESS = 4096
"""For one address: of 512 clients behind one."""
MOST = 16_384
"""For all."""


@dataclass
class _Address:
    """Its peers in turns, each with what it has asked for."""

    peers: OrderedDict[bytes, deque[GetChunk]] = field(default_factory=OrderedDict)
    count: int = 0


class ChunkQueue:
    """First come, first served for each peer; in turns between peers and between addresses."""

    def __init__(self, reads: Callable[[bytes], bool], pace: PaceLimits = TO_ADDRESS) -> None:
        """`reads(peer)`: nothing is waiting to be read by it."""
        self._reads = reads
        self._paces = AddressPaces(pace)
        self._addresses: OrderedDict[str, _Address] = OrderedDict()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def has(self, peer: bytes, address: str, request: GetChunk) -> bool:
        """Whether this waits already: a client asks again after some seconds."""
        at = self._addresses.get(address)
        return at is not None and request in at.peers.get(peer, ())

    def put(self, peer: bytes, address: str, request: GetChunk) -> bool:
        """`peer` asks for a chunk. False: too many wait for it, for its address, or for all."""
        at = self._addresses.get(address) or _Address()
        mine = at.peers.get(peer, deque())
        if len(mine) >= MOST_CHUNKS or at.count >= MOST_OF_ADDRESS or self._count >= MOST:
            return False
        self._addresses[address] = at
        at.peers[peer] = mine
        at.count += 1
        self._count += 1
        mine.append(request)
        return True

    def take(self, now: float) -> tuple[bytes, str, GetChunk] | None:
        """Peer, address and request of the chunk to be sent now; None when nothing may be sent yet."""
        for address, at in self._addresses.items():
            peer = None if self._paces.wait(address, now) else self._next_at(at)
            if peer is None:
                continue
            request = at.peers[peer].popleft()
            at.peers.move_to_end(peer)
            self._addresses.move_to_end(address)
            self._removed(1, peer, address)
            return peer, address, request
        return None

    def sent(self, address: str, size: int, now: float) -> None:
        """A chunk of so many bytes went to `address`."""
        self._paces.take(address, now, max(size, LEAST_PRICE))

    def wait(self, now: float) -> float | None:
        """Seconds until `take` gives something; None: not before something is asked for or read."""
        ready = (address for address, at in self._addresses.items() if self._next_at(at) is not None)
        return min((self._paces.wait(address, now) for address in ready), default=None)

    def forget(self, peer: bytes) -> None:
        """The peer is gone."""
        for address, at in self._addresses.items():
            if (mine := at.peers.get(peer)) is not None:
                count = len(mine)
                mine.clear()
                self._removed(count, peer, address)
                return

    def tidy(self, now: float) -> None:
        """To be called now and then: forget addresses that have been served long ago."""
        self._paces.tidy(now)

    def _next_at(self, at: _Address) -> bytes | None:
        return next(filter(self._reads, at.peers), None)

    def _removed(self, count: int, peer: bytes, address: str) -> None:
        """So many requests of a peer are not waiting any more."""
        at = self._addresses[address]
        self._count -= count
        at.count -= count
        if not at.peers[peer]:
            del at.peers[peer]
        if not at.peers:
            del self._addresses[address]
