"""A raw ZMTP 3.1 peer (NULL mechanism) and the attacks that only such a peer can make.

libzmq's own sockets keep to the rules; this one sends anything. It uses plain blocking sockets: run an attack
in a thread or a process of its own. Addresses are `tcp://HOST:PORT` or `ipc://PATH`. Every attack is bounded
by its arguments, ends by itself, and stops early when the server cuts the connection. Source: ZMTP 3.1,
https://rfc.zeromq.org/spec/37/.
"""

import contextlib
import socket
import struct
from typing import Any, Self
from urllib.parse import urlsplit

import msgspec

MORE, LONG, COMMAND = 1, 2, 4
"""Bits of a frame's first byte."""
GREETING = b"\xff" + bytes(7) + b"\x01\x7f" + b"\x03\x01" + b"NULL".ljust(20, b"\0") + bytes(32)
PATIENCE = 10.0
"""Seconds that a peer waits for the server to accept or send anything."""


class Cut(ConnectionError):
    """The server ended the connection."""


def frame(body: bytes, flags: int = 0) -> bytes:
    """Return `body` with its frame header; long where needed."""
    if len(body) > 255:
        return bytes([flags | LONG]) + struct.pack(">Q", len(body)) + body
    return bytes([flags, len(body)]) + body


def command(name: str, body: bytes = b"") -> bytes:
    """Return a command frame."""
    return frame(bytes([len(name)]) + name.encode() + body, COMMAND)


def ready(socket_type: str = "DEALER", identity: bytes | None = None) -> bytes:
    """Return the READY command, with the Identity property if one is given (any length, any bytes)."""
    properties = [("Socket-Type", socket_type.encode())]
    if identity is not None:
        properties.append(("Identity", identity))
    parts = (
        bytes([len(key)]) + key.encode() + struct.pack(">I", len(value)) + value for key, value in properties
    )
    return command("READY", b"".join(parts))


class RawPeer:
    """One connection. In `with RawPeer(endpoint) as peer`, greeting and READY have been exchanged."""

    def __init__(
        self, endpoint: str, *, identity: bytes | None = None, patience: float = PATIENCE, source: str = ""
    ) -> None:
        """Connect and shake hands. Raises Cut if the server refuses, TimeoutError if it is silent."""
        self.socket = dial(endpoint, patience, source)
        try:
            self._shake_hands(ready(identity=identity))
        except BaseException:
            self.socket.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def send_bytes(self, data: bytes) -> None:
        """Send bytes unchanged."""
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise Cut(str(error)) from error

    def send_frame(self, body: bytes) -> None:
        self.send_bytes(frame(body))

    def send(self, header: dict[str, Any], *frames: bytes) -> None:
        """Send one complete message: frame 0 as MessagePack, then `frames`."""
        parts = [msgspec.msgpack.encode(header), *frames]
        ends = [MORE] * (len(parts) - 1) + [0]
        self.send_bytes(b"".join(frame(part, end) for part, end in zip(parts, ends, strict=True)))

    def receive_frame(self) -> tuple[int, bytes]:
        """Return the flags and the body of the next frame, including commands."""
        flags = self._read(1)[0]
        size = struct.unpack(">Q", self._read(8))[0] if flags & LONG else self._read(1)[0]
        return flags, self._read(size)

    def receive(self) -> tuple[dict[str, Any], list[bytes]]:
        """Return the next message: the map in frame 0, and the frames after it. PINGs are answered
        meanwhile."""
        parts: list[bytes] = []
        while True:
            flags, body = self.receive_frame()
            if flags & COMMAND:
                if body.startswith(b"\x04PING"):
                    self.send_bytes(command("PONG", body[7:]))
                continue
            parts.append(body)
            if not flags & MORE:
                return msgspec.msgpack.decode(parts[0]), parts[1:]

    def ask(self, header: dict[str, Any], *frames: bytes) -> dict[str, Any]:
        """Send a message and return the answer's header."""
        self.send(header, *frames)
        return self.receive()[0]

    def is_cut(self) -> bool:
        """Wait until the server ends the connection. Returns False if it has not within the patience."""
        try:
            while self.socket.recv(65536):
                pass
        except TimeoutError:
            return False
        except ConnectionError:
            pass
        return True

    def _shake_hands(self, our_ready: bytes) -> None:
        self.send_bytes(GREETING)
        self._read(len(GREETING))
        self.send_bytes(our_ready)
        flags, body = self.receive_frame()
        if not flags & COMMAND or not body.startswith(b"\x05READY"):
            raise Cut(f"expected READY, got {body[:40]!r}")

    def _read(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            try:
                part = self.socket.recv(min(size - len(data), 1 << 20))
            except ConnectionError as error:
                raise Cut(str(error)) from error
            if not part:
                raise Cut("the server ended the connection")
            data += part
        return bytes(data)


def dial(endpoint: str, patience: float = PATIENCE, source: str = "") -> socket.socket:
    """Return a connected socket that has sent nothing yet. `source`: the address to come from, "": any."""
    url = urlsplit(endpoint)
    if url.scheme == "ipc":
        plain = socket.socket(socket.AF_UNIX)
        plain.settimeout(patience)
        plain.connect(endpoint.removeprefix("ipc://"))
        return plain
    ours = (source, 0) if source else None
    plain = socket.create_connection((url.hostname, url.port), patience, source_address=ours)
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # otherwise small messages wait 40 ms each
    return plain


def hello(protocol: int, role: str = "client", name: str = "raw", **more: Any) -> dict[str, Any]:
    """Return the header of HELLO."""
    return {"type": "hello", "protocol": protocol, "role": role, "name": name, "join": 0, **more}


# ---- attacks -------------------------------------------------------------------------------------


def unfinished_multipart(peer: RawPeer, size: int, frame_size: int = 65_536) -> int:
    """Send frames that all announce more. Returns the bytes sent before the server cut the connection."""
    return pour(peer, frame(bytes(frame_size), MORE), size)


def pour(peer: RawPeer, part: bytes, size: int) -> int:
    """Send `part` again and again until `size` bytes are out, or the server cuts or accepts no more."""
    sent = 0
    with contextlib.suppress(Cut, TimeoutError):
        while sent < size:
            peer.send_bytes(part)
            sent += len(part)
    return sent


def nested_lists(size: int, key: str) -> bytes:
    """Return a MessagePack map of one entry whose value is a deeply nested list, `size` bytes in all."""
    head = b"\x81" + msgspec.msgpack.encode(key)
    return head + b"\x91" * (size - len(head) - 1) + b"\x90"


def wide_lists(size: int, depth: int, key: str) -> bytes:
    """Return a MessagePack map of one entry: a list with as many small lists (`depth` deep each) as fit in
    `size`."""
    head = b"\x81" + msgspec.msgpack.encode(key)
    item = b"\x91" * (depth - 1) + b"\x90"
    count = (size - len(head) - 5) // len(item)
    return head + b"\xdd" + struct.pack(">I", count) + item * count
