"""Ports of a server: base port P for leaves, P+1 for games and weights."""

from __future__ import annotations

import errno
import ipaddress
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from azselfplay.host.exits import Exit, Fatal
from protocol.keys import DialKeys

DEFAULT_PORT = 5600
PORTS = 2
"""Number of consecutive ports that azserver uses."""
LAST_BASE = 65_533
ANYWHERE = ("0.0.0.0", "::", "*")
"""Addresses to listen on that cannot be dialled."""
LOOPBACK = ("127.0.0.1", "localhost", "::1")
"""Addresses to listen on that only this machine can dial."""


def find_base_port(first: int = DEFAULT_PORT, tries: int = 500) -> int:
    """Return the first base port from `first` on, in steps of ten, where two consecutive ports are free.

    Raises Fatal(TRY_AGAIN) if there is none.
    """
    for base in range(first, min(first + 10 * tries, LAST_BASE + 1), 10):
        if all(_is_free(base + offset) for offset in range(PORTS)):
            return base
    raise Fatal(f"no two free ports in a row from {first} on: give --port", Exit.TRY_AGAIN)


@contextmanager
def claimed_base_port(first: int = DEFAULT_PORT) -> Iterator[int]:
    """Like `find_base_port`, but no other process on this machine gets the same port until the block ends.

    Seconds pass between finding a port and binding it, in which another azrun may look for one too.
    """
    base = find_base_port(first)
    while (claim := _claim(base)) is None:
        base = find_base_port(base + 10)
    with claim:
        yield base


def _claim(base: int) -> socket.socket | None:
    """Return a socket that holds the claim of a base port while it is open; None when another process has it.

    The socket is abstract: all users of the machine see its name (within its network namespace, as with
    ports), it leaves no file that its first user would own, and it disappears with its process.
    """
    name = socket.socket(socket.AF_UNIX)
    try:
        name.bind(f"\0azselfplay-port-{base}")
    except OSError as error:
        name.close()
        if error.errno == errno.EADDRINUSE:
            return None
        raise
    return name


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


@dataclass(frozen=True)
class Address:
    """Address of a server: the base port carries leaves, the next one games and weights."""

    host: str
    port: int
    keys: DialKeys | None = None
    """Keys for a server that requires one."""

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
    """Return host and base port to listen on: `text` as for `parse_address`, or `*`; `port` is taken where it
    names none. Raises Fatal(CONFIG) saying what is wrong."""
    host, own = _parts(text, "--listen", "give an address of this machine, for example 0.0.0.0 or ::")
    if own is not None and port not in (own, DEFAULT_PORT):
        raise Fatal(f"--listen {text} and --port {port} name two ports: give one", Exit.CONFIG)
    return host, port if own is None else own


def _parts(text: str, flag: str, example: str) -> tuple[str, int | None]:
    """Return host and port; None: there is none.

    `::1:5600` is a whole IPv6 address, and may be meant as ::1 with a port. Nobody can tell, so it is
    refused.
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
    """Return whose limits an address has: an IPv6 address those of its /64, which one host has for itself,
    and one that carries an IPv4 address those of the latter."""
    if ":" not in address:
        return address
    number = ipaddress.IPv6Address(address.partition("%")[0])
    if number.ipv4_mapped is not None:
        return str(number.ipv4_mapped)
    return str(ipaddress.IPv6Network((int(number) >> 64 << 64, 64)))


def wants_ipv6(host: str) -> bool:
    """Return whether a host can only be dialled over IPv6: it is such an address, or a name without an IPv4
    one. A name with both is dialled over IPv4, since most servers listen there."""
    try:
        socket.getaddrinfo(host, None, socket.AF_INET)
    except (OSError, UnicodeError):
        return True
    return False
