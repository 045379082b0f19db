"""One connection of the door, and the limits on what connections may cost (decision 21).

`DoorConnection` has the socket, what it is sending, and what it has received but not handled. `Holdings`
counts over all connections, without sockets: it bounds the bytes held for peers that do not finish what they
send or do not read what they get, and the number of connections without a session. The peer without progress
for the longest time must go, because an honest peer's message takes milliseconds and an attacker's may never
end.
"""

from __future__ import annotations

import itertools
import socket
from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from azselfplay.host.ports import LOCAL
from azselfplay.link.rate_limit import RateLimit, TokenBucket
from protocol.zmtp import Incoming, Limits

PARTS_AT_ONCE = 64
"""Buffers passed to one `sendmsg`."""
SMALL = 4096
"""Bytes. Smaller parts are copied when they must wait: this takes less memory than a Python object for
each."""


@dataclass(frozen=True)
class DoorLimits:
    """Limits on what peers may cost. They hold whatever the peers send."""

    incoming: Limits = field(default_factory=Limits)
    unsent: int = 4 * 1024 * 1024 + 256 * 1024
    """Bytes queued for one peer with a session, besides those in the kernel: eight chunks of weights."""
    unsent_stranger: int = 64 * 1024
    """Bytes queued for one peer without a session."""
    held: int = 256 * 1024 * 1024
    """Bytes held for all peers together: unfinished messages and messages that they do not read."""
    patience: float = 60.0
    """Seconds without progress after which a peer for which something is held is cut."""
    connections: int = 11_000
    """Most connections. Beyond that a new one replaces one without a session, or is turned away."""
    connections_of_address: int = 4000
    """Most connections from one address; thousands of workers may be behind one."""
    dials_of_address: RateLimit = RateLimit(rate=30.0, burst=30.0)
    """New connections from one address; further ones are turned away and dial again. A thousand workers
    behind one address have all joined after some 50 s. Thirty CURVE handshakes a second take a hundredth of a
    core."""
    strangers: int = 1000
    """Most connections without a session; the oldest goes. One address needs half a minute to fill this."""
    stranger_patience: float = 60.0
    """Seconds that a connection may have no session: longer than the waits between two HELLOs."""
    talk: RateLimit = RateLimit(rate=100.0, burst=20.0)
    """Messages of one connection that bring no work, each at its `link.rate_limit.price`. The burst is small
    because each new connection has it again: with 60 a flood of HELLOs took 9 % of two cores."""
    handshake_patience: float = 10.0
    """Seconds that a peer has for greeting and handshake."""
    ping_after: float = 5.0
    """Seconds of silence after which a peer gets a PING, because a host that vanished sends nothing."""
    ping_patience: float = 15.0
    """Seconds that the peer has to answer a PING."""


class DoorConnection:
    """One peer: its socket, what it is sending, and what it has received but not handled."""

    def __init__(
        self,
        sock: socket.socket,
        peer: bytes,
        address: str,
        incoming: Incoming,
        limits: DoorLimits,
        now: float,
    ) -> None:
        sock.setblocking(False)
        self.sock = sock
        self.fd = sock.fileno()
        self.peer = peer
        self.address = address
        self.incoming = incoming
        self.unsent: deque[memoryview] = deque()
        self.unsent_size = 0
        self.last_received = self.pinged = self.connected_at = now
        self.talk = TokenBucket(limits.talk, now)
        self.pause = 0.0
        """Seconds until more is read from it; set while one of its messages is handled."""
        self.is_held = False
        """Whether anything was held for it at the last count."""
        self.broken = False
        """Whether it will be dropped in the next turn of the loop: nothing is read or sent any more."""

    @property
    def is_local(self) -> bool:
        """Return whether it came over a local socket, which only this user's processes can reach."""
        return self.address == LOCAL

    def write(self, parts: Sequence[bytes | memoryview]) -> int:
        """Send as much of these buffers as the kernel accepts. Returns the bytes sent. Raises OSError."""
        try:
            return self.sock.sendmsg(parts)
        except (BlockingIOError, InterruptedError):
            return 0

    def queue(self, parts: Sequence[bytes | memoryview], skip: int) -> None:
        """Queue everything after the first `skip` bytes. Writable buffers are copied, because the sender may
        change them. So are small parts of large buffers: otherwise a few answers to a peer that does not read
        would keep their whole batch in memory."""
        copied = bytearray()
        for part in parts:
            if skip < len(part):
                rest = memoryview(part)[skip:]
                self.unsent_size += len(rest)
                # Keep a part without copying it if nobody can change it, and if it is at least half of the
                # buffer that it keeps alive.
                if rest.readonly and len(rest) > SMALL and 2 * len(rest) >= memoryview(rest.obj).nbytes:
                    self._queue_copied(copied)
                    copied = bytearray()
                    self.unsent.append(rest)
                else:
                    copied += rest
            skip = max(0, skip - len(part))
        self._queue_copied(copied)

    def _queue_copied(self, copied: bytearray) -> None:
        if copied:
            self.unsent.append(memoryview(bytes(copied)))

    def flush(self) -> int:
        """Send what is queued. Returns the bytes sent. Raises OSError."""
        # The kernel limits the number of buffers in one call.
        taken = left = self.write(list(itertools.islice(self.unsent, PARTS_AT_ONCE))) if self.unsent else 0
        self.unsent_size -= taken
        while left:
            if left < len(self.unsent[0]):
                self.unsent[0] = self.unsent[0][left:]
                break
            left -= len(self.unsent.popleft())
        return taken

    def ping_is_due(self, now: float, ping_after: float) -> bool:
        """Return whether to send a PING now: after `ping_after` seconds of silence, once in each silence."""
        # ZMTP 3.0 knows no PING, so such a peer's silence says nothing.
        if (
            not self.incoming.answers_pings
            or now - self.last_received < ping_after
            or self.pinged > self.last_received
        ):
            return False
        self.pinged = now
        return True

    def is_dead(self, now: float, patience: float) -> bool:
        """Return whether the peer has left a PING unanswered for `patience` seconds."""
        return self.pinged > self.last_received and now - self.pinged >= patience


@dataclass
class _Holding:
    size: int
    since: float
    """When the peer last made progress."""


class Holdings:
    """How much is held for which peer, least recent progress first."""

    def __init__(self, budget: int, patience: float) -> None:
        """`budget`: for all together, in bytes or connections. `patience`: seconds that a peer may go without
        progress."""
        self.total = 0
        self._budget = budget
        self._patience = patience
        self._by_peer: OrderedDict[bytes, _Holding] = OrderedDict()

    @property
    def oldest(self) -> bytes | None:
        """Return the peer without progress for the longest time; None if there is none."""
        return next(iter(self._by_peer), None)

    def update(self, peer: bytes, size: int, now: float, *, progress: bool) -> list[bytes]:
        """Note that `size` bytes are held for `peer` now. Returns the peers that must go, perhaps including
        this one."""
        if not size:
            self.forget(peer)
            return []
        holding = self._by_peer.get(peer)
        if holding is None:
            holding = self._by_peer[peer] = _Holding(0, now)
        # A peer that makes progress moves to the end of the line.
        elif progress:
            holding.since = now
            self._by_peer.move_to_end(peer)
        self.total += size - holding.size
        holding.size = size
        # Those without progress for the longest time come first, and go first.
        over, leaving = self.total - self._budget, []
        for peer, holding in self._by_peer.items():
            if over <= 0:
                break
            over -= holding.size
            leaving.append(peer)
        return leaving

    def forget(self, peer: bytes) -> None:
        """Note that nothing is held for the peer any more."""
        holding = self._by_peer.pop(peer, None)
        if holding is not None:
            self.total -= holding.size

    def expire(self, now: float) -> list[bytes]:
        """Return the peers that have made no progress for too long."""
        late = []
        for peer, holding in self._by_peer.items():
            if now - holding.since < self._patience:
                break
            late.append(peer)
        return late
