"""One connection of the door: its socket, what it is in the middle of sending, what it has not read yet."""

from __future__ import annotations

import itertools
import socket
from collections import deque
from collections.abc import Sequence
from enum import Enum

from protocol.curve_incoming import CurveIncoming
from protocol.zmtp import Incoming
from runtime.door_limits import DoorLimits
from runtime.listening import LOCAL
from runtime.pacing import CRUMB, CRUMB_PRICE, PRICED_BYTES, Pace

TCP_INFO, ESTABLISHED = socket.TCP_INFO, 1
"""The first byte of TCP_INFO is the connection's state, as in Linux's `tcp_states.h`."""
PARTS_AT_ONCE = 64
"""Buffers handed to one `sendmsg`."""


class Silence(Enum):
    """How long a peer has said nothing."""

    SHORT = "short"
    PING = "ping"
    DEAD = "dead"


class DoorConnection:
    """One peer: its socket, what it is in the middle of sending, and what it has not read yet."""

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
        """Seconds until more of it is read; set while one of its messages is handled."""
        self.is_held = False
        """Something was held for it when that was last counted."""
        self.broken = False
        """It is to be dropped in the next turn of the loop: nothing is read or sent any more."""

    @property
    def is_local(self) -> bool:
        """Whether it came over a local socket, which only this user's processes can reach."""
        return self.address == LOCAL

    def has_hung_up(self) -> bool:
        """Whether its peer has ended the connection, which is known before it is read. One that waited for
        its greeting need not be greeted then, nor is what it said before of any use to it. A local one
        never waits."""
        return not self.is_local and self.sock.getsockopt(socket.IPPROTO_TCP, TCP_INFO, 1)[0] != ESTABLISHED

    def price_of_reading(self, size: int, messages: int) -> float:
        """What it costs that `size` bytes were read which completed so many messages: bytes before a session,
        and a crumb beyond those that are free. In messages without work."""
        if not size or self.is_local:
            return 0.0
        price = 0.0 if self.incoming.joined else size / PRICED_BYTES
        is_crumb = not messages and (size < CRUMB or not self.incoming.joined)
        return price + (CRUMB_PRICE if is_crumb and self.crumbs.take(self.heard) > 0.0 else 0.0)

    def write(self, parts: Sequence[bytes | memoryview]) -> int:
        """Send what the kernel takes of these buffers; bytes taken. Raises OSError."""
        try:
            return self.sock.sendmsg(parts)
        except (BlockingIOError, InterruptedError):
            return 0

    def queue(self, parts: Sequence[bytes | memoryview], skip: int) -> None:
        """Keep what is behind the first `skip` bytes. What can be changed is copied: whoever sent it may."""
        for part in parts:
            if skip < len(part):
                rest = memoryview(part)[skip:]
                self.unsent.append(rest if rest.readonly else memoryview(bytes(rest)))
                self.unsent_size += len(rest)
            skip = max(0, skip - len(part))

    def flush(self) -> int:
        """Send what is queued; bytes taken. Raises OSError."""
        taken = left = self.write(list(itertools.islice(self.unsent, PARTS_AT_ONCE))) if self.unsent else 0
        self.unsent_size -= taken
        while left:
            if left < len(self.unsent[0]):
                self.unsent[0] = self.unsent[0][left:]
                break
            left -= len(self.unsent.popleft())
        return taken

    def silence(self, now: float, ping_after: float, patience: float) -> Silence:
        """What to do about a peer of which nothing has been heard; PING is due again after each answer.

        `ping_after`, `patience`: seconds without a word until a PING, and without an answer to it.
        """
        if not self.incoming.answers_pings or now - self.heard < ping_after:
            return Silence.SHORT
        if self.pinged <= self.heard:
            self.pinged = now
            return Silence.PING
        return Silence.DEAD if now - self.pinged >= patience else Silence.SHORT
