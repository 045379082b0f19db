"""An attacker's tools: any number of raw connections that can send anything. Loopback only."""

import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from foreign_client import PROTOCOL
from raw_zmtp import Cut, RawPeer, dial, hello
from target import HOST

WAIT = 3.0
"""Seconds an attacker waits for anything before it continues without it."""

Header = dict[str, Any]


class Peer(RawPeer):
    """A raw connection that can join."""

    def join(self, role: str) -> Header:
        """Say HELLO. Returns the header of WELCOME or GOODBYE, {} when neither came."""
        until = time.monotonic() + WAIT
        try:
            self.send(hello(PROTOCOL, role, "hostile"))
            while (left := until - time.monotonic()) > 0:
                self.socket.settimeout(left)
                header, _ = self.receive()
                if header["type"] in ("welcome", "goodbye"):
                    return header
        except (Cut, TimeoutError):
            pass
        finally:
            self.socket.settimeout(WAIT)
        return {}


class Crowd:
    """The connections of one attack, all of them cut without a word at its end."""

    source = ""
    """The address that attacks come from, set by `come_from`; "": any."""

    def __init__(self) -> None:
        self._open: list[socket.socket] = []

    def peer(self, port: int) -> Peer | None:
        """Return another peer that has done the handshake; None when the server does not admit it."""
        try:
            one = Peer(address(port), patience=WAIT, source=self.source)
        except OSError:  # Cut and TimeoutError are among them
            return None
        self._open.append(one.socket)
        return one

    def before_and_after_hello(self, port: int) -> Iterator[Peer]:
        """Yield a peer that has not joined, and one that has, as far as they are admitted."""
        for joins in (False, True):
            if peer := self.peer(port):
                if joins:
                    peer.join("watcher")
                yield peer

    def silent(self, port: int) -> socket.socket | None:
        """Return another connection that has sent nothing; None when it is refused."""
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
    """Let attacks come from 127.0.1.`host` from now on: another address than that of the honest clients and
    of other attacks, as in reality. Only Linux has these addresses ready."""
    Crowd.source = f"127.0.1.{host}" if sys.platform == "linux" else ""


@contextmanager
def crowd() -> Iterator[Crowd]:
    """Yield connections for a block; they are cut when it ends."""
    people = Crowd()
    try:
        yield people
    finally:
        people.cut()


def address(port: int) -> str:
    return f"tcp://{HOST}:{port}"
