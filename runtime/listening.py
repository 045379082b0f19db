"""Listening sockets, from endpoints as ZeroMQ writes them: `tcp://HOST:PORT` and `ipc://PATH`."""

from __future__ import annotations

import errno
import socket
from collections.abc import Sequence
from pathlib import Path

from runtime.exits import Exit, Fatal
from runtime.sockets import bind_message

LARGEST_PORT = 65535
USER_TIMEOUT = 30_000
"""Milliseconds after which the kernel gives up a connection that acknowledges nothing."""
UNSENT_IN_KERNEL = 256 * 1024
"""Bytes that the kernel takes for a connection before it can send them. What is on its way is not counted, so
that a long way can be filled; without this the kernel takes 4 MB for a peer that does not read."""
BACKLOG = 1024
"""Connections that wait to be accepted; the kernel may allow fewer."""


def listen(endpoints: Sequence[str]) -> list[socket.socket]:
    """One socket for each endpoint. Raises Fatal(CONFIG) if one cannot be had; none is open then."""
    opened: list[socket.socket] = []
    try:
        for endpoint in endpoints:
            opened.append(_listen(endpoint))
    except Fatal:
        for sock in opened:
            sock.close()
        raise
    return opened


def _listen(endpoint: str) -> socket.socket:
    local = endpoint.startswith("ipc://")
    sock: socket.socket | None = None
    try:
        sock = _local(endpoint.removeprefix("ipc://")) if local else _tcp(endpoint.removeprefix("tcp://"))
        sock.listen(BACKLOG)
    except OSError as error:
        if sock is not None:
            sock.close()
        number = error.errno or (errno.ENAMETOOLONG if local else 0)  # Python gives none for a long path
        raise Fatal(bind_message(endpoint, number, error.strerror or str(error)), Exit.CONFIG) from error
    sock.setblocking(False)
    return sock


def _local(path: str) -> socket.socket:
    """A socket file; one that an earlier process left is replaced."""
    sock = socket.socket(socket.AF_UNIX)
    try:
        if Path(path).is_socket():
            Path(path).unlink()
        sock.bind(path)
    except BaseException:
        sock.close()
        raise
    return sock


def _tcp(address: str) -> socket.socket:
    """HOST:PORT; HOST may be a name, an address, an IPv6 address with or without brackets, or `*`."""
    host, _, port = address.rpartition(":")
    if int(port) > LARGEST_PORT:  # getaddrinfo takes it modulo 65536
        raise OSError(errno.EINVAL, f"a port is at most {LARGEST_PORT}")
    host = "0.0.0.0" if host == "*" else host.strip("[]")
    family, kind, protocol, _, target = socket.getaddrinfo(
        host, int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # The kernel gives these to every connection that is accepted.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, USER_TIMEOUT)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT_IN_KERNEL)
        sock.bind(target)
    except BaseException:
        sock.close()
        raise
    return sock
