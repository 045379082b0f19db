"""One connection of the door: its socket, what it is sending, and what it has received but not handled."""

from __future__ import annotations

import itertools
import socket
from collections import deque
from collections.abc import Sequence
from enum import Enum

from protocol.curve import CurveIncoming
from protocol.zmtp import Incoming
from runtime.door_limits import DoorLimits
from runtime.listening import LOCAL
from runtime.pacing import CRUMB, CRUMB_PRICE, PRICED_BYTES, Pace

TCP_INFO, ESTABLISHED = socket.TCP_INFO, 1
"""The first byte of TCP_INFO is the connection's state, as in Linux's `tcp_states.h`."""
PARTS_AT_ONCE = 64
"""Buffers passed to one `sendmsg`."""
SMALL = 4096
"""Parts of up to so many bytes are copied when they must wait: that takes less memory than the objects around
each."""


class Silence(Enum):
    """What to do about a peer's silence."""

    SHORT = "short"
    PING = "ping"
    DEAD = "dead"


class DoorConnection:
    """One peer: its socket, what it is sending, and what it has received but not handled."""

    def __init__(
        self,
        sock: socket.socket,
        peer: bytes,
        address: str,
        incoming: Incoming | CurveIncoming,
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
        self.heard = self.pinged = self.began = now
        self.talk = Pace(limits.talk, now)
        self.crumbs = Pace(limits.crumbs, now)
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

    def has_hung_up(self) -> bool:
        """Return whether the peer has closed the connection, which is known before reading. If it was waiting
        for its greeting, it need not be greeted, and what it sent is of no use to it. A local peer never
        waits."""
        return not self.is_local and self.sock.getsockopt(socket.IPPROTO_TCP, TCP_INFO, 1)[0] != ESTABLISHED

    def price_of_reading(self, size: int, messages: int) -> float:
        """Return the price, in messages without work, of reading `size` bytes that completed `messages`
        messages: it covers bytes before a session, and crumbs beyond the free ones."""
        if not size or self.is_local:
            return 0.0
        price = 0.0 if self.incoming.joined else size / PRICED_BYTES
        is_crumb = not messages and (size < CRUMB or not self.incoming.joined)
        return price + (CRUMB_PRICE if is_crumb and self.crumbs.take(self.heard) > 0.0 else 0.0)

    def write(self, parts: Sequence[bytes | memoryview]) -> int:
        """Send as much of these buffers as the kernel accepts. Returns the bytes sent. Raises OSError."""
        try:
            return self.sock.sendmsg(parts)
        except (BlockingIOError, InterruptedError):
            return 0

    def queue(self, parts: Sequence[bytes | memoryview], skip: int) -> None:
        """Queue everything after the first `skip` bytes. Writable buffers are copied, because the sender may
        change them, and so are small parts: a few answers to a peer that reads nothing would keep the whole
        batch that they came in."""
        copied = bytearray()
        for part in parts:
            if skip < len(part):
                rest = memoryview(part)[skip:]
                self.unsent_size += len(rest)
                if _is_kept(rest):
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
        taken = left = self.write(list(itertools.islice(self.unsent, PARTS_AT_ONCE))) if self.unsent else 0
        self.unsent_size -= taken
        while left:
            if left < len(self.unsent[0]):
                self.unsent[0] = self.unsent[0][left:]
                break
            left -= len(self.unsent.popleft())
        return taken

    def silence(self, now: float, ping_after: float, patience: float) -> Silence:
        """Return what to do about a peer that was silent. PING is due again after each answer.

        `ping_after`: seconds of silence until a PING. `patience`: seconds to wait for its answer.
        """
        if not self.incoming.answers_pings or now - self.heard < ping_after:
            return Silence.SHORT
        if self.pinged <= self.heard:
            self.pinged = now
            return Silence.PING
        return Silence.DEAD if now - self.pinged >= patience else Silence.SHORT


def _is_kept(part: memoryview) -> bool:
    """Return whether a part that waits need not be copied: nobody changes it, and it is at least half of the
    buffer that it keeps alive."""
    return part.readonly and len(part) > SMALL and 2 * len(part) >= memoryview(part.obj).nbytes
