"""The door of azserver: a listening ZMTP socket that strangers may connect to (decision 21).

It replaces a ROUTER, with the same bytes on the wire, and bounds what a ROUTER does not: the size of an
unfinished message, what is queued for a peer that does not read, connections without a session, and the total
of what is held. The door numbers its peers, and ignores the routing ids that they choose for themselves.
Everything happens in the event loop, with plain sockets; no task, no polling, no thread.

With a `Lock`, peers from the network must prove an allowed key (CURVE); this user's own processes need
none.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import math
import os
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from azselfplay.host.aio import Faults
from azselfplay.host.ports import LOCAL, Listener
from azselfplay.link.door_connection import DoorConnection, DoorLimits, Holdings
from azselfplay.link.rate_limit import LEAST_PAUSE, LONGEST_PAUSE, SMALL_READ, TokenBucket, price
from protocol.curve import CurveIncoming, Handshake
from protocol.keys import KeyOwner, KeyPair, NotNow, OwnerOf
from protocol.zmtp import Broken, Incoming

log = logging.getLogger(__name__)

READ_SIZE = 128 * 1024
"""Bytes read from one connection before the others get their turn: one message of 128 chess leaves."""
TURN = 64
"""Messages handled from one connection before the others get their turn."""
TICK_SECONDS = 1.0

OnMessage = Callable[[bytes, list[memoryview]], None]
OnGone = Callable[[bytes, str], None]
Lock = tuple[KeyPair, OwnerOf]
"""The key pair of a server, and who may join with which key: for all its doors."""


class Door:
    """A listening socket for messages. Call `start` with the callbacks. Peers are identified by numbers."""

    def __init__(
        self,
        endpoints: Sequence[str],
        limits: DoorLimits | None = None,
        clock: Callable[[], float] = time.monotonic,
        lock: Lock | None = None,
    ) -> None:
        """Listen at once (`tcp://` and `ipc://`). Raises Fatal as `listen` does if an endpoint is
        unavailable.

        `lock`: keys required from all but this user's own processes; None: no keys.
        """
        self._limits = limits or DoorLimits()
        self._lock = lock
        self._clock = clock
        self._listener = Listener(endpoints)
        self._numbers = itertools.count(1)
        self._connections: dict[bytes, DoorConnection] = {}
        self._strangers = Holdings(self._limits.strangers, self._limits.stranger_patience)
        """Connections without a session, each counted as one."""
        self._held = Holdings(self._limits.held, self._limits.patience)
        self._of_address: Counter[str] = Counter()
        """Connections by address, without zeros."""
        self._dials: dict[str, TokenBucket] = {}
        """By address, except for full buckets."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.faults = Faults(log)  # our own errors, each while reading one connection
        self.on_drained: Callable[[], None] = lambda: None
        """Called when everything queued for some peer has been passed to the kernel."""
        self.cut = self.refused = 0
        """Connections that the door closed because of what they did; `refused` counts those among them
        without an allowed key."""

    def start(self, on_message: OnMessage, on_gone: OnGone) -> None:
        """Begin to accept and read. `on_message(peer, frames)` is called for each message, and `on_gone(peer,
        why)` when a connection has ended; `why` is "" if the peer hung up."""
        self._on_message, self._on_gone = on_message, on_gone
        self._loop = asyncio.get_running_loop()
        self._listener.start(self._loop, self._take_in)
        self._timer = self._loop.call_later(TICK_SECONDS, self._tick)

    def close(self) -> None:
        """Close all connections without calling back."""
        if self._timer is not None:
            self._timer.cancel()
        for connection in list(self._connections.values()):
            self._forget(connection)
        self._listener.close()
        self._loop = None

    def __len__(self) -> int:
        """Return the number of connections."""
        return len(self._connections)

    def admit(self, peer: bytes) -> None:
        """Note that the peer has a session: whole messages are kept for it."""
        if (connection := self._connections.get(peer)) is not None:
            connection.incoming.joined = True
            self._strangers.forget(peer)

    def dismiss(self, peer: bytes) -> None:
        """Note that the peer's session has ended."""
        if (connection := self._connections.get(peer)) is not None and not connection.broken:
            # From now on the limits for strangers apply.
            connection.incoming.joined = False
            self._add_stranger(peer)

    def unsent(self, peer: bytes) -> int:
        """Return the bytes queued for a peer, besides those in the kernel; 0 if it is gone."""
        connection = self._connections.get(peer)
        return 0 if connection is None else connection.unsent_size

    def owner(self, peer: bytes) -> KeyOwner | None:
        """Return the owner of the key that the peer has proved; None where no keys are needed."""
        connection = self._connections.get(peer)
        return None if connection is None else connection.incoming.owner

    def revoked(self) -> list[bytes]:
        """Return the peers whose key is no longer allowed."""
        return [one.peer for one in self._connections.values() if one.incoming.is_revoked()]

    def charge(self, peer: bytes, size: int = 0) -> None:
        """Charge a peer for a message of `size` bytes that brings no work. A peer that sends many of them is
        read more slowly, or cut.

        Peers on local sockets are this user's own processes and are never delayed.
        """
        connection = self._connections.get(peer)
        if connection is None or connection.is_local:
            return
        wait = connection.talk.take(self._clock(), price(size))
        if wait > LONGEST_PAUSE:
            self.cut_off(peer, f"it sent more messages than {self._limits.talk.rate:.0f} a second")
        elif wait >= LEAST_PAUSE:
            # Its next messages wait in the kernel, so TCP makes the peer wait too.
            connection.pause = wait

    def send(self, peer: bytes, frames: Sequence[bytes | memoryview]) -> bool:
        """Send a message. Returns False if the peer is gone or does not read. Never waits.

        Frames that must wait for a slow reader are copied, unless they are read-only.
        """
        connection = self._connections.get(peer)
        if connection is None or connection.broken or not connection.incoming.ready:
            return False
        return self._send(connection, connection.incoming.wire(frames))

    # ---- out --------------------------------------------------------------------------------

    def _send(self, connection: DoorConnection, parts: list[bytes | memoryview]) -> bool:
        limits = self._limits
        limit = limits.unsent if connection.incoming.joined else limits.unsent_stranger
        size = sum(map(len, parts))
        # A peer that has read everything gets a message of any size; otherwise a large one could never be
        # sent.
        if connection.unsent_size and connection.unsent_size + size > limit:
            return False
        try:
            # What is queued goes first, or messages would overtake each other.
            taken = 0 if connection.unsent else connection.write(parts)
        except OSError as error:
            self._drop_soon(connection, error.strerror or str(error))
            return False
        if taken < size:
            connection.queue(parts, taken)
            if connection.unsent_size == size - taken:  # the first part that must wait
                self._in_loop.add_writer(connection.fd, self._on_writable, connection)
            self._account(connection, progress=False)
        return True

    def _on_writable(self, connection: DoorConnection) -> None:
        if connection.broken:
            return
        try:
            taken = connection.flush()
        except OSError as error:
            self._drop_soon(connection, error.strerror or str(error))
            return
        if not connection.unsent:
            self._in_loop.remove_writer(connection.fd)
            self.on_drained()
        self._account(connection, progress=taken > 0)

    # ---- in ---------------------------------------------------------------------------------

    def _take_in(self, sock: socket.socket, address: str) -> bool:
        """Accept a connection, and greet it. Returns False if it is turned away."""
        now, limits = self._clock(), self._limits
        if address != LOCAL:
            # An address pays for its dials before a handshake costs us anything.
            dials = self._dials.setdefault(address, TokenBucket(limits.dials_of_address, now))
            if self._of_address[address] >= limits.connections_of_address or dials.wait(now):
                sock.close()
                self.cut += 1
                log.warning("turned away a connection of %s, which makes too many", address)
                return False
            dials.take(now)
        # The stranger that has waited longest makes room; a peer with a session stays.
        if len(self._connections) >= limits.connections:
            leaving = self._strangers.oldest
            if leaving is None:
                sock.close()
                return False
            self.cut_off(leaving, f"there are {limits.connections} connections")
        peer = next(self._numbers).to_bytes(8, "big")
        incoming = Incoming(limits.incoming)
        if address != LOCAL and self._lock is not None:
            incoming = CurveIncoming(limits.incoming, Handshake(*self._lock, os.urandom))
        connection = self._connections[peer] = DoorConnection(sock, peer, address, incoming, limits, now)
        self._of_address[address] += 1
        self._add_stranger(peer)
        self._in_loop.add_reader(connection.fd, self._on_readable, connection)
        self._send(connection, [incoming.opening])
        if not connection.broken:
            self._on_readable(connection)  # its greeting has usually arrived: saves a turn of the loop
        return True

    def _on_readable(self, connection: DoorConnection) -> None:
        if connection.broken:  # it will be dropped in the next turn, and must not join before
            return
        try:
            data = connection.sock.recv(READ_SIZE)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._drop(connection, error.strerror or str(error))
            return
        if not data:
            self._drop(connection, "")
            return
        connection.last_received = self._clock()
        self._read(connection, connection.incoming.feed(data), len(data))

    def _read(self, connection: DoorConnection, messages: Iterator[list[memoryview]], size: int = 0) -> None:
        """Pass on up to `TURN` messages; the others follow in the next turn of the loop, or after a pause.

        `size`: bytes that were read; 0: none, because these messages were read before.
        """
        handled = 0
        try:
            for message in messages:
                handled += 1
                self._on_message(connection.peer, message)
                if connection.broken:
                    return
                if handled == TURN or connection.pause:
                    break
        except Broken as error:
            self.refused += bool(error.answer)
            self.cut_off(connection.peer, str(error), error.answer)
            return
        except NotNow:
            self.cut_off(connection.peer, "nobody new is let in while the allowed keys cannot be read")
            return
        except Exception as error:  # ends this connection only, not the process
            self.faults.note("reading a connection", error)
            self.cut_off(connection.peer, "a fault of ours")
            return
        if not handled and size and (size < SMALL_READ or not connection.incoming.joined):
            self.charge(connection.peer, size)
        if handled == TURN or connection.pause:
            # Let the other connections go first, or pause. The end of a pause is rounded up, so that several
            # pauses end in the same turn of the loop.
            loop, pause, connection.pause = self._in_loop, connection.pause, 0.0
            loop.remove_reader(connection.fd)
            at = math.ceil((loop.time() + pause) / LEAST_PAUSE) * LEAST_PAUSE if pause else 0.0
            loop.call_at(at, self._read_on, connection, messages)
            return
        # Reading was stopped while these messages waited; resume it.
        if not size:
            self._in_loop.add_reader(connection.fd, self._on_readable, connection)
        if said := connection.incoming.take_replies():
            self._send(connection, [said])
        # Most reads leave nothing, and need no accounting.
        if connection.is_held or connection.incoming.held or connection.unsent_size:
            self._account(connection, progress=handled > 0)

    def _read_on(self, connection: DoorConnection, messages: Iterator[list[memoryview]]) -> None:
        if not connection.broken:
            connection.last_received = self._clock()  # the peer was not silent: we did not read
            self._read(connection, messages)

    # ---- ends -------------------------------------------------------------------------------

    def _tick(self) -> None:
        now = self._clock()
        for peer in self._held.expire(now):
            self.cut_off(peer, f"no progress for {self._limits.patience:.0f} s")
        for peer in self._strangers.expire(now):
            self._drop_soon(self._connections[peer], "")
        # Any number of addresses may dial.
        self._dials = {address: one for address, one in self._dials.items() if not one.is_rested(now)}
        patience = self._limits.ping_patience
        for connection in self._connections.values():
            if (
                not connection.incoming.ready
                and now - connection.connected_at >= self._limits.handshake_patience
            ):
                self.cut_off(connection.peer, "it has not finished its handshake in time")
            if connection.is_dead(now, patience):
                self._drop_soon(connection, f"nothing heard for {patience:g} s after a PING")
            elif connection.ping_is_due(now, self._limits.ping_after):
                self._send(connection, [connection.incoming.ping()])
        self._timer = self._in_loop.call_later(TICK_SECONDS, self._tick)

    def _account(self, connection: DoorConnection, *, progress: bool) -> None:
        """Update the amount held for this connection."""
        size = connection.incoming.held + connection.unsent_size
        connection.is_held = size > 0
        for peer in self._held.update(connection.peer, size, self._clock(), progress=progress):
            self.cut_off(peer, f"all peers hold {self._limits.held} bytes, and this one the longest")

    def _add_stranger(self, peer: bytes) -> None:
        """Note that a connection has no session. If there are too many of them, the oldest is cut: an honest
        peer joins long before one address can have dialled that often."""
        for oldest in self._strangers.update(peer, 1, self._clock(), progress=True):
            self.cut_off(oldest, f"{self._limits.strangers} connections have no session")

    def cut_off(self, peer: bytes, reason: str, answer: bytes = b"") -> None:
        """Drop a connection because of what it did, after sending `answer`."""
        connection = self._connections[peer]
        if not connection.broken:
            self.cut += 1
            log.warning("cut a connection of %s: %s", connection.address or "this machine", reason)
            if answer:
                self._send(connection, [answer])
            self._drop_soon(connection, reason)

    def _drop_soon(self, connection: DoorConnection, reason: str) -> None:
        """Drop the connection in the next turn of the loop, because the caller may be using it."""
        if not connection.broken:
            connection.broken = True
            self._held.forget(connection.peer)
            self._strangers.forget(connection.peer)
            self._in_loop.call_soon(self._drop, connection, reason)

    def _drop(self, connection: DoorConnection, reason: str) -> None:
        if self._connections.get(connection.peer) is connection:
            self._forget(connection)
            self._on_gone(connection.peer, reason)

    def _forget(self, connection: DoorConnection) -> None:
        connection.broken = True
        del self._connections[connection.peer]
        self._held.forget(connection.peer)
        self._strangers.forget(connection.peer)
        self._of_address[connection.address] -= 1
        if not self._of_address[connection.address]:
            del self._of_address[connection.address]
        if self._loop is not None and not self._loop.is_closed():
            self._loop.remove_reader(connection.fd)
            if connection.unsent:
                self._loop.remove_writer(connection.fd)
        connection.sock.close()

    @property
    def _in_loop(self) -> asyncio.AbstractEventLoop:
        assert self._loop is not None, "start comes first"
        return self._loop
