"""Addresses and ports of a server (base port P for leaves, P+1 for games and weights), and how the server
listens on them.

Endpoints are written as for ZeroMQ: `tcp://HOST:PORT` and `ipc://PATH`.
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import logging
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from azselfplay.host.exits import Exit, Fatal
from protocol.keys import DialKeys

log = logging.getLogger(__name__)

DEFAULT_PORT = 5600
PORTS = 2
"""Number of consecutive ports that azserver uses."""
LAST_BASE = 65_533
TRIES = 500
"""Number of base ports that are tried."""
ANYWHERE = ("0.0.0.0", "::", "*")
"""Addresses to listen on that cannot be dialled."""
LOOPBACK = ("127.0.0.1", "localhost", "::1")
"""Addresses to listen on that only this machine can dial."""
LARGEST_PORT = 65535
USER_TIMEOUT = 30_000
"""Milliseconds after which the kernel closes a connection whose peer acknowledges nothing."""
UNSENT_IN_KERNEL = 256 * 1024
"""Bytes that the kernel buffers per connection before sending them. Bytes in transit do not count, so a
connection with a long round trip keeps its full throughput. Without this limit the kernel buffers 4 MB for a
peer that does not read."""
BACKLOG = 1024
"""Connections that may wait to be accepted; the kernel may allow fewer."""
ACCEPTS = 64
"""Connections accepted in one turn of the loop."""
ACCEPT_PAUSE = 0.2
"""Seconds without accepting after a connection was turned away, or the system had no file descriptor or
memory for one. A flood of connections then waits in the kernel: at most 320 a second are turned away."""
MAY_PASS = frozenset({errno.EADDRINUSE, errno.EADDRNOTAVAIL, socket.EAI_AGAIN})
"""Errors of listening that may be gone at the next start: a port in use, or an address or a name server that
is not available yet, for example while a machine boots."""

LOCAL = ""
"""Stands for the address of a local socket."""


UNKNOWN_NAME = "the name "
"""Beginning of the sentence that `unknown_name` returns."""


def unknown_name(host: str, error: OSError | UnicodeError) -> str:
    """Return a sentence saying that a host name has no address, or cannot have one."""
    return f"{UNKNOWN_NAME}{host!r} is not known ({getattr(error, 'strerror', error)})"


@contextmanager
def claimed_base_port(first: int = DEFAULT_PORT) -> Iterator[int]:
    """Yield the first base port from `first` on, in steps of ten, where two consecutive ports are free. No
    other process on this machine gets the same one until the block ends: seconds pass between finding a port
    and binding it, and another azrun may look for a port in that time.

    Raises Fatal(TRY_AGAIN) if there is none.
    """
    for base in range(first, min(first + 10 * TRIES, LAST_BASE + 1), 10):
        if not all(_is_free(base + offset) for offset in range(PORTS)):
            continue
        # The socket is abstract: its name is visible to all users of the machine (within its network
        # namespace, like a port), it leaves no file that its first user would own, and it disappears with its
        # process.
        with socket.socket(socket.AF_UNIX) as claim:
            try:
                claim.bind(f"\0azselfplay-port-{base}")
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
                continue  # another process has claimed this base port
            yield base
            return
    raise Fatal(f"no two free ports in a row from {first} on: give --port", Exit.TRY_AGAIN)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        # As in `_tcp`: lingering connections of an earlier server do not make the port count as in use.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


@dataclass(frozen=True)
class Address:
    """Address of a server. The base port carries leaves; the next port carries games and weights."""

    host: str
    port: int
    keys: DialKeys | None = None
    """Keys for a server that requires a key."""

    @property
    def leaves(self) -> str:
        return f"tcp://{self._host}:{self.port}"

    @property
    def bulk(self) -> str:
        return f"tcp://{self._host}:{self.port + 1}"

    @property
    def server(self) -> str:
        """HOST:PORT of the base port, as users write it."""
        return f"{self._host}:{self.port}"

    @property
    def folder_name(self) -> str:
        """Folder name for the spool; contains no path separator."""
        return "".join(char if char.isalnum() or char in ".-" else "_" for char in f"{self.host}-{self.port}")

    @property
    def _host(self) -> str:
        return f"[{self.host}]" if ":" in self.host else self.host


def parse_address(text: str) -> Address:
    """Parse `host`, `host:port`, `[v6]`, `[v6]:port` or a bare IPv6 address. Raises Fatal(CONFIG) saying what
    is wrong."""
    host, port = _parts(text, "--server", f"give HOST or HOST:PORT, for example gpu-box:{DEFAULT_PORT}")
    return Address(host, DEFAULT_PORT if port is None else port)


def parse_listen(text: str, port: int) -> tuple[str, int]:
    """Return the host and base port to listen on. `text` has the forms of `parse_address`, or is `*`; `port`
    counts if `text` names no port. Raises Fatal(CONFIG) saying what is wrong."""
    host, own = _parts(text, "--listen", "give an address of this machine, for example 0.0.0.0 or ::")
    if own is not None and port not in (own, DEFAULT_PORT):
        raise Fatal(f"--listen {text} and --port {port} name two ports: give one", Exit.CONFIG)
    return host, port if own is None else own


def _parts(text: str, flag: str, example: str) -> tuple[str, int | None]:
    """Return the host, and the port or None if there is none.

    `::1:5600` is a whole IPv6 address, but the user may mean ::1 with a port. Such ambiguous text is refused.
    """
    host, port = text.strip(), ""
    problem = f"{flag}: {text!r} is not an address; {example}"
    if host.startswith("["):
        host, bracket, port = host[1:].partition("]")
        if not bracket or not _is_ipv6(host) or (port and not port.startswith(":")) or port == ":":
            raise Fatal(problem, Exit.CONFIG)
        port = port[1:]
    elif host.count(":") == 1:
        host, _, port = host.partition(":")
        if not port:
            raise Fatal(problem, Exit.CONFIG)
    elif ":" in host:
        before, _, last = host.rpartition(":")
        if last.isdecimal() and _is_ipv6(before):
            raise Fatal(
                f"{flag}: {text!r} is not a clear address: [{before}]:{last} or [{host}]? Give the one that "
                "you mean, with its brackets",
                Exit.CONFIG,
            )
        if not _is_ipv6(host):
            raise Fatal(problem, Exit.CONFIG)
    if not host or any(char.isspace() or not char.isprintable() or char in "/@[]" for char in host):
        raise Fatal(problem, Exit.CONFIG)
    if port and not (port.isascii() and port.isdigit() and len(port) < 6 and 1 <= int(port) <= 65534):
        raise Fatal(f"{flag}: {port!r} is not a base port (1 to 65534); {example}", Exit.CONFIG)
    return host, int(port) if port else None


def _is_ipv6(host: str) -> bool:
    try:
        ipaddress.IPv6Address(host)
    except ValueError:
        return False
    return True


def network_of(address: str) -> str:
    """Return the network by which the limits of an address are counted. This is the /64 network of an IPv6
    address, because one host usually has a whole /64, and the IPv4 address of an IPv4-mapped one."""
    if ":" not in address:
        return address
    # The zone, such as %eth0, is not part of the address.
    number = ipaddress.IPv6Address(address.partition("%")[0])
    if number.ipv4_mapped is not None:
        return str(number.ipv4_mapped)
    return str(ipaddress.IPv6Network((int(number) >> 64 << 64, 64)))


def wants_ipv6(host: str) -> bool:
    """Return whether a host can only be dialled over IPv6: it is an IPv6 address, or a name with an IPv6
    address and without an IPv4 one. A name with both is dialled over IPv4, because most servers listen there.
    So is one that cannot be looked up now, as while a machine boots: the answer holds for a socket's life."""
    return ":" in host or (not _has_address(host, socket.AF_INET) and _has_address(host, socket.AF_INET6))


def _has_address(host: str, family: socket.AddressFamily) -> bool:
    try:
        return bool(socket.getaddrinfo(host, None, family))
    except (OSError, UnicodeError):
        return False


# ---- Listening -----------------------------------------------------------------------------------


class Listener:
    """Accepts connections at several endpoints once it is started."""

    def __init__(self, endpoints: Sequence[str]) -> None:
        """Open the listening sockets. Raises Fatal as `listen` does if an endpoint is unavailable."""
        self._sockets = listen(endpoints)
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(
        self, loop: asyncio.AbstractEventLoop, on_connection: Callable[[socket.socket, str], bool]
    ) -> None:
        """Begin to accept. `on_connection(socket, address)` is called for each connection, where `address` is
        the network by which its limits are counted (`network_of`). It returns False to turn the connection
        away."""
        self._loop, self._on_connection = loop, on_connection
        for sock in self._sockets:
            loop.add_reader(sock.fileno(), self._accept, sock)

    def close(self) -> None:
        for sock in self._sockets:
            if self._loop is not None and not self._loop.is_closed():
                self._loop.remove_reader(sock.fileno())
            sock.close()
        self._sockets, self._loop = [], None

    def _accept(self, listening: socket.socket) -> None:
        turned_away = False
        for _ in range(ACCEPTS):
            try:
                sock, address = listening.accept()
            # No connection is waiting any more, or the peer has hung up.
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                break
            except OSError as error:  # no file descriptor or memory for another connection
                log.warning("cannot accept connections now: %s", error.strerror)
                turned_away = True
                break
            if not self._on_connection(sock, network_of(address[0]) if isinstance(address, tuple) else LOCAL):
                turned_away = True
        if turned_away:  # connections in the backlog stay there
            assert self._loop is not None, "start comes first"
            self._loop.remove_reader(listening.fileno())

            def accept_again() -> None:
                if self._loop is not None:  # it may have been closed meanwhile
                    self._loop.add_reader(listening.fileno(), self._accept, listening)

            self._loop.call_later(ACCEPT_PAUSE, accept_again)


def check_base_port(host: str, base: int) -> None:
    """Raise Fatal as `listen` does if the ports of a server are not available now. The check keeps no socket
    open."""
    with named_base_port(base):
        for sock in listen([f"tcp://{host}:{base + offset}" for offset in range(PORTS)]):
            sock.close()


def check_web_port(web: int, base: int) -> None:
    """Raise Fatal if the pages of a server with this base port cannot be served on port `web` now."""
    if base <= web < base + PORTS:
        raise Fatal(f"--web {web} is one of the two ports of --port {base}: give another", Exit.CONFIG)
    try:
        _tcp(f"127.0.0.1:{web}").close()
    except OSError as error:
        code = Exit.TRY_AGAIN if error.errno in MAY_PASS else Exit.CONFIG
        raise Fatal(f"--web {web}: {error.strerror}; give another port", code) from error


@contextmanager
def named_base_port(base: int) -> Iterator[None]:
    """Make a Fatal from the block name the port that the user gave, even if the server's other port is in
    use."""
    try:
        yield
    except Fatal as error:
        text = f"--port {base} takes the ports {base} and {base + PORTS - 1}, and {error}"
        raise Fatal(text, error.code) from error


def listen(endpoints: Sequence[str]) -> list[socket.socket]:
    """Open one listening socket per endpoint, or none at all. Raises Fatal(TRY_AGAIN) if an endpoint is in
    use or its address is not available yet, Fatal(CONFIG) if it is unavailable for another reason."""
    opened: list[socket.socket] = []
    for endpoint in endpoints:
        local = endpoint.startswith("ipc://")
        try:
            if local:
                opened.append(socket.socket(socket.AF_UNIX))
                path = Path(endpoint.removeprefix("ipc://"))
                if path.is_socket():
                    path.unlink()  # left by an earlier process
                opened[-1].bind(str(path))
            else:
                opened.append(_tcp(endpoint.removeprefix("tcp://")))
            opened[-1].listen(BACKLOG)
            opened[-1].setblocking(False)
        except OSError as error:
            for sock in opened:
                sock.close()
            number = error.errno or (errno.ENAMETOOLONG if local else 0)  # Python sets none for a long path
            code = Exit.TRY_AGAIN if number in MAY_PASS else Exit.CONFIG
            raise Fatal(bind_message(endpoint, number, error.strerror or str(error)), code) from error
    return opened


def bind_message(endpoint: str, number: int, text: str) -> str:
    """Return the message for the error `number` (of `errno`) when listening on `endpoint`; the message says
    what to do."""
    if number == errno.EADDRINUSE and endpoint.startswith("tcp:"):
        port = endpoint.rpartition(":")[2]
        return (
            f"port {port} is in use ({endpoint}), perhaps by another azserver: stop that one, "
            "or give another base port with --port (two ports in a row are taken)"
        )
    if number in (errno.ENAMETOOLONG, errno.EINVAL) and endpoint.startswith("ipc:"):
        return f"{endpoint} is too long for a local socket: set TMPDIR to a shorter folder, such as /tmp"
    return f"cannot listen on {endpoint}: {text}; check --listen and --port"


def place_to_listen(host: str, port: int) -> tuple[socket.AddressFamily, tuple[Any, ...]]:
    """Return the address to bind a socket of that family to: of a name with several, the one that is dialled
    (`wants_ipv6`). Raises OSError if this host has none."""
    try:
        places = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except UnicodeError as error:  # a part between dots is empty or too long
        raise OSError(errno.EINVAL, "it is no host name") from error
    family, _, _, _, place = min(places, key=lambda found: found[0] != socket.AF_INET)
    return family, place


def _tcp(address: str) -> socket.socket:
    """Listen on HOST:PORT; HOST may be a name, an address, an IPv6 address with or without brackets, or
    `*`."""
    host, _, port = address.rpartition(":")
    if int(port) > LARGEST_PORT:  # getaddrinfo would take it modulo 65536
        raise OSError(errno.EINVAL, f"a port is at most {LARGEST_PORT}")
    host = "0.0.0.0" if host == "*" else host.strip("[]")
    family, target = place_to_listen(host, int(port))
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        # Otherwise a restarted server would have to wait until the kernel forgets its old connections.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Accepted connections inherit these options.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, USER_TIMEOUT)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT_IN_KERNEL)
        sock.bind(target)
    except BaseException:
        sock.close()
        raise
    return sock
