"""Requested chunks of weights that wait to be sent, limited in bytes a second per place and in total. Pure.

Weights are the only answer that is larger than its question, by a factor of ten thousand. A place is a key,
or an address where no keys are used. Places take turns, and so do the peers of one place; a peer's oldest
request comes first. Requests beyond the rate wait, and so do those of a peer that has not yet read its
previous chunk; nothing is lost. The address "" (processes of this machine) has no rate limit of its own.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field

from protocol.messages import GetChunk
from runtime.pacing import MEGABYTE, AddressPaces, Pace, PaceLimits

TO_PLACE = PaceLimits(rate=32.0 * MEGABYTE, burst=64.0 * MEGABYTE)
"""Bytes to one place: AlphaZero's network (90 MB) takes a second, and eight clients there get it within 20
s."""
TO_ALL = PaceLimits(rate=256.0 * MEGABYTE, burst=256.0 * MEGABYTE)
"""Default limit for all places together."""
LEAST_PRICE = 256 * 1024
"""Bytes that a chunk counts as at least, for looking it up and opening its file."""
MOST_CHUNKS = 8
"""Most chunks that may wait for one peer (`docs/protocol.md`)."""
MOST_OF_PLACE = 4096
"""Most chunks that may wait for one place: 512 clients behind one address."""
MOST = 16_384
"""Most chunks that may wait in total."""


@dataclass
class _Place:
    """The peers of a place, in the order of their turns, each with its requests."""

    peers: OrderedDict[bytes, deque[GetChunk]] = field(default_factory=OrderedDict)
    count: int = 0


class ChunkQueue:
    """First come, first served within a peer; peers and places take turns."""

    def __init__(
        self, reads: Callable[[bytes], bool], pace: PaceLimits = TO_PLACE, to_all: PaceLimits = TO_ALL
    ) -> None:
        """`reads(peer)` tells whether the peer has read everything that was sent to it."""
        self._reads = reads
        self._paces = AddressPaces(pace)
        self._to_all = Pace(to_all, 0.0)
        self._places: OrderedDict[str, _Place] = OrderedDict()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def has(self, peer: bytes, place: str, request: GetChunk) -> bool:
        """Return whether this request waits already: a client asks again after some seconds."""
        at = self._places.get(place)
        return at is not None and request in at.peers.get(peer, ())

    def put(self, peer: bytes, place: str, request: GetChunk) -> bool:
        """Queue a request for a chunk. Returns False if too many wait for this peer, its place, or in
        total."""
        at = self._places.get(place) or _Place()
        mine = at.peers.get(peer, deque())
        if len(mine) >= MOST_CHUNKS or at.count >= MOST_OF_PLACE or self._count >= MOST:
            return False
        self._places[place] = at
        at.peers[peer] = mine
        at.count += 1
        self._count += 1
        mine.append(request)
        return True

    def take(self, now: float) -> tuple[bytes, str, GetChunk] | None:
        """Return peer, place and request of the chunk to send now; None when nothing may be sent yet."""
        if self._to_all.wait(now):
            return None
        for place, at in self._places.items():
            peer = None if self._paces.wait(place, now) else self._next_at(at)
            if peer is None:
                continue
            request = at.peers[peer].popleft()
            at.peers.move_to_end(peer)
            self._places.move_to_end(place)
            self._removed(1, peer, place)
            return peer, place, request
        return None

    def sent(self, place: str, size: int, now: float) -> None:
        """Note that a chunk of `size` bytes was sent to `place`."""
        price = max(size, LEAST_PRICE)
        self._paces.take(place, now, price)
        self._to_all.take(now, price)

    def wait(self, now: float) -> float | None:
        """Return seconds until `take` returns something; None: not before something is requested or read."""
        ready = (place for place, at in self._places.items() if self._next_at(at) is not None)
        first = min((self._paces.wait(place, now) for place in ready), default=None)
        return None if first is None else max(first, self._to_all.wait(now))

    def forget(self, peer: bytes) -> None:
        """Drop the requests of a peer that is gone."""
        for place, at in self._places.items():
            if (mine := at.peers.get(peer)) is not None:
                count = len(mine)
                mine.clear()
                self._removed(count, peer, place)
                return

    def tidy(self, now: float) -> None:
        """Forget places that were served long ago. To be called regularly."""
        self._paces.tidy(now)

    def _next_at(self, at: _Place) -> bytes | None:
        return next(filter(self._reads, at.peers), None)

    def _removed(self, count: int, peer: bytes, place: str) -> None:
        """Note that `count` requests of a peer no longer wait."""
        at = self._places[place]
        self._count -= count
        at.count -= count
        if not at.peers[peer]:
            del at.peers[peer]
        if not at.peers:
            del self._places[place]
