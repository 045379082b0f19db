"""Ports of a server: base port P for leaves, P+1 for games and weights."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from protocol.keys import DialKeys
from runtime.exits import Exit, Fatal

DEFAULT_PORT = 5600
PORTS = 2
"""Number of consecutive ports that azserver uses."""
LAST_BASE = 65_533
NUMBERS = (0, 65_535)
"""First and last port number, for `runtime.config.check_ranges`."""
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
    """Parse `host`, `host:port`, `[v6]:port` or a bare IPv6 address. Raises Fatal(CONFIG) saying what is
    wrong."""
    host, port = text.strip(), ""
    if host.startswith("["):
        host, _, port = host[1:].partition("]")
        port = port.removeprefix(":")
    elif host.count(":") == 1:
        host, _, port = host.partition(":")
    if not host or any(char.isspace() or char in "/@" for char in host):
        raise _no_address(f"{text!r} is not an address")
    if port and not (port.isascii() and port.isdigit() and 1 <= int(port) <= 65534):
        raise _no_address(f"{port!r} is not a base port (1 to 65534)")
    return Address(host, int(port or DEFAULT_PORT))


def _no_address(problem: str) -> Fatal:
    example = f"give HOST or HOST:PORT, for example gpu-box:{DEFAULT_PORT}"
    return Fatal(f"--server: {problem}; {example}", Exit.CONFIG)
