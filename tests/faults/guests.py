"""A peer with a key that sends arbitrary messages: libzmq does the handshake, messages are as in
docs/protocol.md."""

from __future__ import annotations

import struct
import tomllib
from pathlib import Path
from typing import Any

import msgpack
import zmq
from foreign_client import PROTOCOL

ROWS = 16
"""Leaves per request."""
PATIENCE = 120_000
"""Milliseconds to wait for WELCOME, on a busy machine."""

Packed = list[bytes]
Socket = zmq.Socket[bytes]


class Guest:
    """Several connections with one key, from one address."""

    def __init__(self, port: int, server: str, key: Path) -> None:
        """`server`: its public key."""
        self._port = port
        self._server, self._own = server, tomllib.loads(key.read_text())
        self._context = zmq.Context()
        self._sockets: list[Socket] = []
        """Kept here, because unreferenced sockets would be closed."""

    def dial(self, offset: int = 0, hwm: int = 1000, role: str = "client") -> Socket:
        """Return a connection to the leaves port (`offset` 1: the bulk port) that has said HELLO."""
        socket = self._context.socket(zmq.DEALER)
        options = ((zmq.LINGER, 0), (zmq.RCVHWM, hwm), (zmq.SNDHWM, 100), (zmq.RCVTIMEO, PATIENCE))
        for option, value in options:
            socket.set(option, value)
        socket.set(zmq.CURVE_SERVERKEY, self._server.encode())
        socket.set(zmq.CURVE_PUBLICKEY, self._own["public"].encode())
        socket.set(zmq.CURVE_SECRETKEY, self._own["secret"].encode())
        socket.connect(f"tcp://127.0.0.1:{self._port + offset}")
        tell(socket, hello(role))
        self._sockets.append(socket)
        return socket

    def close(self) -> None:
        self._context.destroy(0)


def ask(kind: str, **entries: object) -> Packed:
    """Return a message without frames."""
    return [msgpack.packb({"type": kind, **entries})]


def hello(role: str = "client", join: int = 0) -> Packed:
    return ask("hello", protocol=PROTOCOL, role=role, name="mallory", software="none", join=join)


def evaluate(request: int, history: int = 1, bits: int = 0) -> Packed:
    """Return an EVALUATE of empty boards of tic-tac-toe; `bits` is the last float32 of the features."""
    features = struct.pack(f"<{2 * history}QII", *[0] * (2 * history), bits, 0) * ROWS
    head = ask("evaluate", request=request, rows=ROWS)
    return [*head, features, struct.pack("<H", 3) * ROWS, struct.pack("<3H", 0, 1, 2) * ROWS]


def tell(socket: Socket, message: Packed) -> bool:
    """Send a message. Returns False when nothing more can be queued."""
    try:
        socket.send_multipart(message, zmq.NOBLOCK)
    except zmq.Again:
        return False
    return True


def answer_of(socket: Socket, *kinds: str) -> dict[str, Any]:
    """Wait for the next message of one of these types, and return its header."""
    while True:
        header: dict[str, Any] = msgpack.unpackb(socket.recv_multipart()[0])
        if header["type"] in kinds:
            return header
