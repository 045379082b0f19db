"""As much of HTTP as a scraper needs: GET of a path, one short answer, end of the connection.

Plain sockets in the event loop that is already there: no task, no thread. Clients can cost only a bounded
number of connections, bytes and answers a second, however slowly they ask (`HttpPort`).
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus

from runtime.exits import Fatal
from runtime.faults import Faults
from runtime.listening import Listener
from runtime.pacing import AddressPaces, PaceLimits

log = logging.getLogger(__name__)

MOST_CONNECTIONS, MOST_OF_ADDRESS = 32, 8
"""Most connections at a time, in total and from one address; further ones are closed. So one address cannot
keep others out."""
MOST_HEAD = 8 * 1024
"""Most bytes in a request; a longer one is refused."""
PATIENCE = 5.0
"""Seconds from the connection to the last byte of the answer."""
PACE = PaceLimits(rate=20.0, burst=60.0)
"""Connections from one address; faster ones are closed unread."""
MANY_ADDRESSES = 1000
"""Number of addresses from which on those that have not asked for a while are forgotten."""
TEXT = "text/plain; charset=utf-8"


@dataclass(frozen=True)
class Reply:
    """An answer."""

    status: HTTPStatus
    body: bytes
    content_type: str = TEXT

    @classmethod
    def text(cls, status: HTTPStatus, text: str) -> Reply:
        return cls(status, text.encode() + b"\n")


Answer = Callable[[str], Reply]
"""Returns the reply for a path."""


def respond(head: bytes, answer: Answer) -> bytes:
    """Return all bytes of the response to a request, read up to its empty line. Pure if `answer` is."""
    words = head.split(b"\n", 1)[0].split()
    if len(words) != 3 or not words[2].startswith(b"HTTP/1.") or not words[1].isascii():
        return _written(Reply.text(HTTPStatus.BAD_REQUEST, "this is no HTTP/1 request"))
    if words[0] not in (b"GET", b"HEAD"):
        return _written(Reply.text(HTTPStatus.METHOD_NOT_ALLOWED, "only GET and HEAD are answered"))
    path = words[1].decode().partition("?")[0]
    return _written(answer(path), with_body=words[0] == b"GET")


def _written(reply: Reply, *, with_body: bool = True) -> bytes:
    head = (
        f"HTTP/1.1 {reply.status.value} {reply.status.phrase}\r\nContent-Type: {reply.content_type}\r\n"
        f"Content-Length: {len(reply.body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + (reply.body if with_body else b"")


@dataclass(eq=False)
class _Connection:
    sock: socket.socket
    address: str
    timer: asyncio.TimerHandle | None = None
    head: bytearray = field(default_factory=bytearray)
    unsent: memoryview = field(default_factory=lambda: memoryview(b""))


class HttpPort:
    """Listens at once; answers once it is started."""

    def __init__(
        self, listen: str, port: int, answer: Answer, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Raises Fatal(TRY_AGAIN) if the port is in use, Fatal(CONFIG) if it is unavailable for another
        reason."""
        self._answer = answer
        self._clock = clock
        self._faults = Faults(log)
        self._paces = AddressPaces(PACE)
        self._connections: set[_Connection] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        try:
            self._listener = Listener([f"tcp://{listen}:{port}"], clock)
        except Fatal as fatal:
            why = fatal.__cause__ if isinstance(fatal.__cause__, OSError) else None
            raise Fatal(
                f"metrics cannot be served on {listen}:{port}: {why.strerror if why else fatal}; "
                "stop what listens there, or give another --metrics-port or --metrics-listen",
                fatal.code,
            ) from fatal

    def start(self) -> None:
        """Start answering. Must be called in the thread of the event loop."""
        self._loop = asyncio.get_running_loop()
        self._listener.start(self._loop, self._take_in)

    def close(self) -> None:
        for connection in list(self._connections):
            self._end(connection)
        self._listener.close()

    def _take_in(self, sock: socket.socket, address: str) -> bool:
        now, known = self._clock(), self._connections
        held = sum(one.address == address for one in known)
        if len(known) >= MOST_CONNECTIONS or held >= MOST_OF_ADDRESS or self._paces.wait(address, now) > 0:
            sock.close()
            return False
        assert self._loop is not None
        self._paces.take(address, now)
        if len(self._paces) > MANY_ADDRESSES:
            self._paces.tidy(now)
        sock.setblocking(False)
        connection = _Connection(sock, address)
        connection.timer = self._loop.call_later(PATIENCE, self._end, connection)
        self._connections.add(connection)
        self._loop.add_reader(sock.fileno(), self._read, connection)
        return True

    def _read(self, connection: _Connection) -> None:
        try:
            data = connection.sock.recv(MOST_HEAD)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        connection.head += data
        if not data:
            self._end(connection)
        elif b"\r\n\r\n" in connection.head or b"\n\n" in connection.head:
            self._reply(connection, self._safely(bytes(connection.head)))
        elif len(connection.head) > MOST_HEAD:
            too_long = Reply.text(
                HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"at most {MOST_HEAD} bytes are read"
            )
            self._reply(connection, _written(too_long))

    def _safely(self, head: bytes) -> bytes:
        """Answer a request. A bug in an answer must not end the process that is being watched."""
        try:
            return respond(head, self._answer)
        except Exception as error:
            self._faults.note("metrics", error, self._clock())
            return _written(
                Reply.text(HTTPStatus.INTERNAL_SERVER_ERROR, "a fault in azselfplay, see its log")
            )

    def _reply(self, connection: _Connection, answer: bytes) -> None:
        assert self._loop is not None
        connection.unsent = memoryview(answer)
        self._loop.remove_reader(connection.sock.fileno())
        self._loop.add_writer(connection.sock.fileno(), self._write, connection)

    def _write(self, connection: _Connection) -> None:
        try:
            connection.unsent = connection.unsent[connection.sock.send(connection.unsent) :]
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            connection.unsent = memoryview(b"")
        if not connection.unsent:
            self._end(connection)

    def _end(self, connection: _Connection) -> None:
        assert self._loop is not None
        if connection.timer is not None:
            connection.timer.cancel()
        self._connections.discard(connection)
        self._loop.remove_reader(connection.sock.fileno())
        self._loop.remove_writer(connection.sock.fileno())
        connection.sock.close()
