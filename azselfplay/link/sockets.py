"""ZeroMQ sockets with every important option set, and the Channel that reads one inside asyncio.

The options and their reasons: high-water marks are only a fuse (credits control the flow); LINGER is 0
because nothing of value exists only in a socket; heartbeats are on because TCP does not notice a dead host;
MAXMSGSIZE is set because peers are not trusted. docs/decisions/0001-reading-zeromq.md explains how the
Channel reads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import numpy.typing as npt
import zmq
from zmq.utils import z85

from azselfplay.host.aio import raise_file_limit
from azselfplay.host.exits import Exit, Fatal
from azselfplay.host.ports import wants_ipv6
from protocol.keys import DialKeys
from protocol.messages import MAX_FRAME

LEAVES_LIMIT = 4 * 1024 * 1024
"""Largest frame on the leaves port, in bytes: 4,096 chess leaves of 952 bytes."""
BULK_LIMIT = MAX_FRAME
"""Largest frame on the bulk port, in bytes. It is larger than the largest record, so that a record slightly
too long gets an answer (`too_long`). ZeroMQ silently cuts the connection at larger frames."""
BOX_OVERHEAD = 64
"""Upper bound of the bytes that CURVE adds to a frame."""
DRAIN_BUDGET = 256
"""Messages read from one socket before other callbacks of the loop get their turn."""
IN_PLACE_FROM = 32 * 1024
"""Read-only frames of at least this many bytes are sent in place (122 kB: 6 us instead of 50 us in the
loop)."""

NOW, NOW_AND_MORE = int(zmq.DONTWAIT), int(zmq.DONTWAIT | zmq.SNDMORE)
EVENTS, READABLE = int(zmq.EVENTS), int(zmq.POLLIN)
"""Plain integers, because `|` and `&` of two flags take four calls of Python functions. A worker handles a
message every few milliseconds; in between, other processes evict its code from the CPU's caches, and each
function that must be fetched again costs microseconds."""

HEARTBEAT_MS = 5_000
"""Milliseconds between two heartbeats of ZeroMQ; a connection is cut after three without an answer."""

Socket = zmq.Socket[bytes]
Context = zmq.Context[Socket]
Frame = bytes | memoryview | npt.NDArray[Any]


class _Context(Context):
    """A context that does nothing when it is garbage-collected. pyzmq's would wait for its sockets forever,
    and a process that ends on an error must not hang there. The proper way to end a context is
    `destroy(0)`."""

    def __del__(self) -> None:
        """Do nothing: the end of the process frees the context."""


def new_context() -> Context:
    """Return a context, after raising the limit on open files: at the limit libzmq silently refuses peers.
    Raises Fatal(CONFIG) if it stays too low."""
    raise_file_limit()
    context = _Context()
    context.set(zmq.MAX_SOCKETS, 65_000)
    return context


def new_dealer(
    context: Context, endpoint: str, *, limit: int = LEAVES_LIMIT, hwm: int = 64, keys: DialKeys | None = None
) -> Socket:
    """Return a DEALER for `endpoint` that has not dialled yet. It dials again when a connection is lost.

    `limit`: largest accepted frame, in bytes. `hwm`: messages queued in each direction. What is sent while
    there is no connection is queued. The option against that, IMMEDIATE, must stay off: with it, libzmq 4.3.5
    ends the process (`!_more`, fq.cpp) if a connection breaks between two frames of a message that is being
    read. `keys`: for a server that requires one.
    """
    socket = context.socket(zmq.DEALER)
    set_common(socket, limit if keys is None else limit + BOX_OVERHEAD, hwm)
    if keys is not None:
        socket.set(zmq.CURVE_SERVERKEY, z85.encode(keys.server))
        socket.set(zmq.CURVE_PUBLICKEY, z85.encode(keys.own.public))
        socket.set(zmq.CURVE_SECRETKEY, z85.encode(keys.own.secret))
    # Retry after 0.2 s, doubling up to 30 s; on this machine only up to 1 s, because few peers are local.
    socket.set(zmq.RECONNECT_IVL, 200)
    socket.set(zmq.RECONNECT_IVL_MAX, 1_000 if is_local(endpoint) else 30_000)
    if endpoint.startswith("tcp:") and wants_ipv6(urlsplit(endpoint).hostname or ""):
        socket.set(zmq.IPV6, 1)
    return socket


def dial(socket: Socket, endpoint: str) -> None:
    """Dial `endpoint`. Raises Fatal(CONFIG), and closes the socket, if it is not an address."""
    try:
        socket.connect(endpoint)
    except zmq.ZMQError as error:
        socket.close()
        raise Fatal(
            f"{endpoint} is not an address to connect to ({error.strerror}); "
            "give HOST or HOST:PORT, for example gpu-box:5600",
            Exit.CONFIG,
        ) from error


def hang_up(socket: Socket, endpoint: str) -> None:
    """Drop the connection to `endpoint`, and what is queued for it, whether libzmq still has one or not."""
    with suppress(zmq.ZMQError):  # libzmq has given this endpoint up
        socket.disconnect(endpoint)


def set_common(socket: Socket, limit: int, hwm: int) -> None:
    """Set the options of every socket. `limit`: bytes of a frame. `hwm`: messages queued in each
    direction."""
    socket.set(zmq.LINGER, 0)
    socket.set(zmq.MAXMSGSIZE, limit)
    socket.set(zmq.SNDHWM, hwm)
    socket.set(zmq.RCVHWM, hwm)
    socket.set(zmq.HANDSHAKE_IVL, 5_000)
    socket.set(zmq.TCP_KEEPALIVE, 1)
    socket.set(zmq.TCP_MAXRT, 30_000)
    socket.set(zmq.HEARTBEAT_IVL, HEARTBEAT_MS)
    socket.set(zmq.HEARTBEAT_TIMEOUT, 3 * HEARTBEAT_MS)
    socket.set(zmq.HEARTBEAT_TTL, 4 * HEARTBEAT_MS)


def is_local(endpoint: str) -> bool:
    """Return whether an endpoint is certainly on this machine."""
    url = urlsplit(endpoint)
    host = url.hostname or ""
    return url.scheme in ("ipc", "inproc") or host in ("localhost", "::1") or host.startswith("127.")


class Channel:
    """One socket, read by the running event loop. Never blocks; no task, no polling.

    `on_message(frames)` is called for each message. The views stay valid for as long as they are kept. An
    exception in `on_message` reaches the loop's exception handler (`host.aio.run` then ends the process),
    after the next read has been scheduled.
    """

    def __init__(self, socket: Socket, on_message: Callable[[list[memoryview]], None]) -> None:
        self.socket = socket
        self._on_message = on_message
        self._loop: asyncio.AbstractEventLoop | None = None
        self._fd = int(socket.get(zmq.FD))
        self._drain_comes = False

    def start(self) -> None:
        """Begin reading. Must be called in the thread of the event loop."""
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._fd, self._drain)
        self._drain_soon()

    def close(self, linger: int = 0) -> None:
        """Stop reading and close the socket; messages already sent get `linger` milliseconds to leave."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.remove_reader(self._fd)
        self._loop = None
        self.socket.close(linger)

    def send(self, frames: Sequence[Frame]) -> bool:
        """Send a message. Returns False if the socket's queue is full, or a ROUTER's peer is gone.

        Frames are copied, except large ones that are read-only (bytes, arrays whose `writeable` flag is off):
        those are sent in place, and their memory must not change.
        """
        if self.socket.closed:
            return False
        sent = True
        last = len(frames) - 1
        for index, frame in enumerate(frames):
            data = plain(frame)
            # Memory that others may write must not be read later, and a small copy costs less than sharing.
            fixed, size = (True, len(data)) if isinstance(data, bytes) else (data.readonly, data.nbytes)
            copy = size < IN_PLACE_FROM or not fixed
            try:
                self.socket.send(data, NOW_AND_MORE if index < last else NOW, copy=copy)
            except zmq.ZMQError as error:
                # A full queue, or a peer that is gone: the caller keeps the message.
                if error.errno not in (zmq.EAGAIN, zmq.EHOSTUNREACH):
                    raise
                sent = False
                if index == 0:
                    break
                # A pipe may die between two frames: libzmq drops the frames up to the last one, so continue
                # up to it.
        self._drain_soon()
        return sent

    def _drain_soon(self) -> None:
        if self._loop is not None and not self._drain_comes:
            self._drain_comes = True
            self._loop.call_soon(self._drain)

    def _drain(self) -> None:
        """Read until nothing is left or the budget is spent; in the second case, schedule another drain."""
        self._drain_comes = False
        # If `on_message` raises, more messages may wait.
        is_dry = False
        try:
            for _ in range(DRAIN_BUDGET):
                is_closed = self._loop is None or self.socket.closed
                if is_closed or not int(self.socket.get(EVENTS)) & READABLE:
                    is_dry = True
                    break
                frames = receive(self.socket)
                if frames is not None:
                    self._on_message(frames)
        finally:
            if not is_dry:
                self._drain_soon()


def receive(socket: Socket) -> list[memoryview] | None:
    """Return one message without waiting, or None. Frames are not copied."""
    try:
        frame = socket.recv(NOW, copy=False)
    except zmq.Again:
        return None
    frames = [frame.buffer]
    while frame.more:
        # The frames of a message arrive together, so this does not wait.
        frame = socket.recv(NOW, copy=False)
        frames.append(frame.buffer)
    return frames


def plain(frame: Frame) -> bytes | memoryview:
    """Return the frame as bytes; keeps an array's read-only flag."""
    if not isinstance(frame, np.ndarray):
        return frame
    return np.ascontiguousarray(frame).data.cast("B") if frame.size else b""
