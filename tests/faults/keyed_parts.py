"""azserver, azclient and trainer with keys and metrics, each of which can be killed and restarted.

A guest has a key and sends arbitrary messages: libzmq does the handshake, messages are as in
docs/protocol.md.
"""

from __future__ import annotations

import struct
import tomllib
from collections.abc import Sequence
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

import msgpack
import zmq
from foreign_client import PROTOCOL
from free_ports import free_base_port
from parts import Parts
from target import HOST

from azselfplay.link.keys import ALLOWED_FILE, SERVER_FILE, as_text, new_pair, write_pair
from protocol.keys import KeyRole
from server.keys import write_allowed

NAMES = ("server", "trainer", "client.main")
CLIENT, TRAINER = "client", "the-trainer"
ROWS = 16
"""Leaves per request of a guest."""
PATIENCE = 120_000
"""Milliseconds to wait for WELCOME, on a busy machine."""

Metrics = dict[str, float]
"""Values by name and labels as written, such as `az_clients{role="clients"}`."""
Packed = list[bytes]
Socket = zmq.Socket[bytes]


class KeyRing:
    """Keys for clients of these names and for a trainer."""

    def __init__(self, folder: Path, clients: Sequence[str]) -> None:
        self._folder = folder / "keys"
        pair = new_pair()
        self.server = as_text(pair.public)
        write_pair(self._folder / SERVER_FILE, pair, "Of a test.")
        allowed: dict[str, tuple[KeyRole, bytes]] = {}
        for name in (*clients, TRAINER):
            pair = new_pair()
            write_pair(self.file(name), pair, "Of a test.")
            allowed[name] = ("trainer" if name == TRAINER else "client", pair.public)
        self.count = len(allowed)
        write_allowed(self._folder / ALLOWED_FILE, allowed)

    def file(self, name: str) -> Path:
        return self._folder / f"{name}.key"

    def server_flags(self) -> list[str]:
        return ["--keys", str(self._folder)]

    def dial_flags(self, name: str) -> list[str]:
        return ["--server-key", self.server, "--key", str(self.file(name))]


class KeyedParts(Parts):
    """Enter it to start all three and wait for a stored game. All leaves come from azclient."""

    def __init__(self, folder: Path, guests: Sequence[str] = ()) -> None:
        """`guests`: names of further keys for clients."""
        super().__init__(folder)
        self.keys = KeyRing(folder, [CLIENT, *guests])
        self.host = HOST
        base = free_base_port()
        self.metrics_ports = {name: base + number for number, name in enumerate(NAMES)}

    def __enter__(self) -> KeyedParts:
        try:
            for name in NAMES:
                self.begin(name)
            self.wait_for_play()
        except BaseException:
            self.stop()
            raise
        return self

    def wait_for_play(self) -> None:
        """Wait until games are stored."""
        stored = 'az_games_received_total{status="stored"}'
        self.wait(lambda: self.metrics("trainer").get(stored, 0.0) > 0, "stored games")

    def wait_until_whole(self) -> None:
        """Wait until evaluator, client and trainer are up again, and every key is allowed."""
        wanted = ("az_evaluators", 'az_clients{role="clients"}', "az_trainer_present")

        def is_whole() -> bool:
            told = self.metrics("server")
            is_there = all(told.get(name, 0.0) > 0 for name in wanted) and bool(self.metrics("trainer"))
            return is_there and told.get("az_allowed_keys") == self.keys.count

        self.wait(is_whole, "all parts")

    def metrics(self, name: str) -> Metrics:
        """Return the metrics of one part; {} while it does not answer."""
        return scrape(self.metrics_ports[name])

    def whole_log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def _server_flags(self) -> list[str]:
        flags = super()._server_flags()
        flags[flags.index("--workers") + 1] = "0"
        return [*flags, *self.keys.server_flags(), *self._tells("server")]

    def _client_flags(self) -> list[str]:
        return self._dialled(CLIENT, super()._client_flags()) + self._tells("client.main")

    def _trainer_flags(self) -> list[str]:
        return self._dialled(TRAINER, super()._trainer_flags()) + self._tells("trainer")

    def _dialled(self, key: str, flags: list[str]) -> list[str]:
        flags[flags.index("--server") + 1] = f"{self.host}:{self.port}"
        return [*flags, *self.keys.dial_flags(key)]

    def _tells(self, name: str) -> list[str]:
        return ["--metrics-port", str(self.metrics_ports[name])]


def scrape(port: int) -> Metrics:
    """Return all metrics of a process on this machine; {} while it does not answer."""
    connection = HTTPConnection(HOST, port, timeout=10)
    try:
        connection.request("GET", "/metrics")
        lines = connection.getresponse().read().decode().splitlines()
        told = [line.rsplit(" ", 1) for line in lines if line and not line.startswith("#")]
        return {name: float(value) for name, value in told}
    except (OSError, HTTPException):
        return {}
    finally:
        connection.close()


# ---- a guest -----------------------------------------------------------------------------------


class Guest:
    """Several connections with one key, from one address."""

    def __init__(self, port: int, server: str, key: Path) -> None:
        """`server`: its public key."""
        self._port = port
        self._server, self._own = server, tomllib.loads(key.read_text())
        self._context = zmq.Context()
        self._sockets: list[Socket] = []
        """Kept here, because unreferenced sockets would be closed."""

    def dial(self, offset: int = 0, role: str = "client") -> Socket:
        """Return a connection to the leaves port (`offset` 1: the bulk port) that has said HELLO."""
        socket = self._context.socket(zmq.DEALER)
        options = ((zmq.LINGER, 0), (zmq.SNDHWM, 100), (zmq.RCVTIMEO, PATIENCE))
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


def hello(role: str) -> Packed:
    return ask("hello", protocol=PROTOCOL, role=role, name="mallory", software="none", join=0)


def evaluate(request: int) -> Packed:
    """Return an EVALUATE of empty boards of tic-tac-toe."""
    features = struct.pack("<2QII", 0, 0, 0, 0) * ROWS
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
