"""What an attacker has: any number of raw connections, each with whatever it likes to say. Loopback only."""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from foreign_client import PROTOCOL
from raw_zmtp import Cut, RawPeer, dial, hello
from target import HOST

WAIT = 3.0
"""Seconds an attacker waits for anything before it goes on without."""

Header = dict[str, Any]


class Peer(RawPeer):
    """A raw connection whose every call comes back: what the server refuses to take or to say is None."""

    def tell(self, header: Header, *frames: bytes) -> bool:
        """Send one message; False when the server has cut the connection or takes no more."""
        try:
            self.send(header, *frames)
        except (Cut, TimeoutError):
            return False
        return True

    def wait_for(self, *kinds: str, seconds: float = WAIT) -> Header | None:
        """The header of the next message of one of these types, or None."""
        until = time.monotonic() + seconds
        with suppress(Cut, TimeoutError):
            while (left := until - time.monotonic()) > 0:
                self.socket.settimeout(left)
                header, _ = self.receive()
                self.socket.settimeout(WAIT)
                if header["type"] in kinds:
                    return header
        self.socket.settimeout(WAIT)
        return None

    def join(self, role: str = "client", name: str = "hostile", seconds: float = WAIT) -> Header:
        """Say hello; the header of welcome or goodbye, {} when neither came."""
        self.tell(hello(PROTOCOL, role, name))
        return self.wait_for("welcome", "goodbye", seconds=seconds) or {}


class Crowd:
    """The connections of one attack, all of them cut at its end without a word."""

    source = ""
    """The address that attacks come from, set by `come_from`; "": any."""

    def __init__(self) -> None:
        self._open: list[socket.socket] = []

    def peer(self, port: int, identity: bytes | None = None, socket_type: str = "DEALER") -> Peer | None:
        """One more peer that has shaken hands; None when the server does not let it in."""
        try:
            one = Peer(
                address(port), identity=identity, socket_type=socket_type, patience=WAIT, source=self.source
            )
        except OSError:  # Cut and TimeoutError are among them
            return None
        self._open.append(one.socket)
        return one

    def silent(self, port: int) -> socket.socket | None:
        """One more connection that has said nothing; None when it is refused."""
        try:
            one = dial(address(port), WAIT, self.source)
        except OSError:
            return None
        self._open.append(one)
        return one

    def cut(self) -> None:
        for one in self._open:
            one.close()
        self._open.clear()


def come_from(host: int) -> None:
    """Attacks come from 127.0.1.`host` from now on: another address than that of the honest clients, and of
    other attacks, as in life. Only Linux has these ready."""
    Crowd.source = f"127.0.1.{host}" if sys.platform == "linux" else ""


@contextmanager
def crowd() -> Iterator[Crowd]:
    """Connections for a block; they are cut when it ends."""
    people = Crowd()
    try:
        yield people
    finally:
        people.cut()


def address(port: int) -> str:
    return f"tcp://{HOST}:{port}"
