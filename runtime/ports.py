"""Ports of a server: base port P for leaves, P+1 for games and weights, P+2 for announcements."""

from __future__ import annotations

import socket

from runtime.exits import Exit, Fatal

DEFAULT_PORT = 5600
PORTS = 3
"""Ports in a row that azserver takes."""


def find_base_port(first: int = DEFAULT_PORT, tries: int = 500) -> int:
    """The first base port from `first` on, in steps of ten, where three in a row are free.

    Raises Fatal(TRY_AGAIN) if there is none.
    """
    for base in range(first, first + 10 * tries, 10):
        if all(_is_free(base + offset) for offset in range(PORTS)):
            return base
    raise Fatal(f"no three free ports in a row from {first} on: give --port", Exit.TRY_AGAIN)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def split_address(text: str, default_port: int = DEFAULT_PORT) -> tuple[str, int]:
    """`HOST` or `HOST:PORT` (also `[::1]:PORT`) as host and base port. Raises Fatal(CONFIG)."""
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        host, port = text, str(default_port)
    host = host.removeprefix("tcp://")
    if not host or not port.isdecimal() or not 0 < int(port) <= 65_535 - PORTS:
        raise Fatal(
            f"{text!r} is not a server's address: give HOST or HOST:PORT, for example gpu-box:{DEFAULT_PORT}",
            Exit.CONFIG,
        )
    return host, int(port)
