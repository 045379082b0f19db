"""The listening end of ZMTP 3.1, as a pure object: bytes in, whole messages out.

The security mechanism is NULL here; `protocol.curve` adds CURVE.

`Incoming` keeps no more of an unfinished message than `Limits` allow, and almost nothing for a peer that has
no session yet. It ignores the identity that a peer claims: the listener numbers the connections.
docs/decisions/0021-the-door.md says why this is written by hand. Source: https://rfc.zeromq.org/spec/37/.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from protocol.keys import KeyOwner
from protocol.messages import MAX_FRAME, MAX_HELLO

MORE, LONG, COMMAND = 1, 2, 4
"""Bits of the first byte of a frame."""
GREETING_SIZE = 64
_SIGNATURE = b"\xff\0\0\0\0\0\0\0\x01\x7f"
NULL = b"NULL".ljust(20, b"\0")


def greeting(mechanism: bytes, *, as_server: bool = False) -> bytes:
    """Return the first 64 bytes that either side sends; `mechanism` has 20 bytes."""
    return _SIGNATURE + b"\x03\x01" + mechanism + bytes((as_server,)) + bytes(31)


GREETING = greeting(NULL)
MAX_COMMAND = 1024
"""Most bytes in a command; READY has about 50."""
MAX_COMMANDS = 64
"""Most commands in one read; a PING comes every few seconds."""
_NOTHING = memoryview(b"")
FRIENDS = (b"DEALER", b"REQ", b"ROUTER")
"""Socket types that may dial a ROUTER."""


class Broken(ValueError):
    """The peer violates ZMTP or the limits. The connection cannot be used any more."""

    def __init__(self, reason: str, answer: bytes = b"") -> None:
        """`answer`: bytes to send before the connection ends."""
        super().__init__(reason)
        self.answer = answer


@dataclass(frozen=True)
class Limits:
    """How large a message may be. For a peer without a session, only the beginning of frame 0 is kept."""

    frame: int = MAX_FRAME
    """Most bytes in one frame."""
    message: int = 8 * 1024 * 1024
    """Most bytes in all frames together."""
    frames: int = 32


def frame_header(size: int, *, more: bool, command: bool = False) -> bytes:
    """Return the header of a frame with `size` bytes."""
    flags = (MORE if more else 0) | (COMMAND if command else 0)
    return bytes((flags, size)) if size < 256 else struct.pack(">BQ", flags | LONG, size)


def command(name: bytes, body: bytes = b"") -> bytes:
    """Return a command as one frame."""
    content = bytes((len(name),)) + name + body
    return frame_header(len(content), more=False, command=True) + content


READY_PROPERTIES = b"\x0bSocket-Type\x00\x00\x00\x06ROUTER\x08Identity\x00\x00\x00\x00"
READY = command(b"READY", READY_PROPERTIES)

PING = command(b"PING", b"\0\0")
"""A PING without a time to live (TTL): the peer need not close the connection when we fall silent."""


class Incoming:
    """Decodes what one peer sends. Set `joined` once the peer has a session: until then only frame 0 is
    kept."""

    mechanism = NULL
    opening = GREETING + READY
    """The first bytes sent to the peer."""
    owner: KeyOwner | None = None
    """Owner of the peer's key, where keys are needed."""

    def __init__(self, limits: Limits) -> None:
        self.joined = False
        self.ready = False
        """True once the handshake is done."""
        self.answers_pings = False
        """True if the peer speaks ZMTP 3.1 or newer."""
        self.held = 0
        """Bytes kept of a message that is not complete."""
        self._replies: list[bytes] = []
        self._limits = limits
        self._greeted = self._knows_ping = False
        self._rest = b""
        """The incomplete beginning of a greeting or of a frame's header."""
        self._frames: list[memoryview] = []
        self._count = self._size = 0
        """Frames and bytes of the message so far, kept or not."""
        self._commands = 0
        """Commands in the current read."""
        self._flags = 0
        self._left = -1
        """Bytes still to come of the current frame; -1 between two frames."""
        self._length = self._keep = 0
        """Length of the current frame, and how many of its first bytes are kept."""
        self._body = _NOTHING
        self._filled = 0

    def is_revoked(self) -> bool:
        """Return whether the key that the peer joined with is no longer allowed, or has another owner or role
        now."""
        return False

    def take_replies(self) -> bytes:
        """Return and clear what must be sent to the peer now, outside of messages (PONG)."""
        said = b"".join(self._replies)
        self._replies.clear()
        return said

    def wire(self, frames: Sequence[bytes | memoryview]) -> list[bytes | memoryview]:
        """Return a message to the peer as the buffers to send one after the other. A `memoryview` must be of
        bytes."""
        parts: list[bytes | memoryview] = []
        for body in frames:
            parts += (frame_header(len(body), more=True), body)
        # The last frame's header says that no frame follows.
        parts[-2] = frame_header(len(parts[-1]), more=False)
        return parts

    def ping(self) -> bytes:
        """Return a PING, which asks whether the peer is alive."""
        return PING

    def feed(self, data: bytes) -> Iterator[list[memoryview]]:
        """Yield the messages that `data` completes, each as its frames. Raises Broken.

        For a peer without a session, a message is only its frame 0, cut off after `MAX_HELLO` + 1 bytes.
        """
        # Prepend the beginning of a header that came in two reads.
        if self._rest:
            data, self._rest = self._rest + data, b""
        view = memoryview(data)
        self._commands = at = 0
        while at < len(view):
            if self._left < 0:
                if self.ready and (stop := self._whole_frame(data, at)):
                    flags, at = data[at], stop
                    if self._take_frame(flags, len(self._body)):
                        yield self._end_message()
                    continue
                # Bytes that must be there before the next body begins.
                size = GREETING_SIZE if not self._greeted else 9 if view[at] & LONG else 2
                if len(view) - at < size:
                    self._rest = bytes(view[at:])
                    return
                self._begin(view[at : at + size])
                at += size
            part = view[at : at + self._left] if self._left > 0 else view[:0]
            at += len(part)
            self._left -= len(part)
            kept = part[: self._keep - self._filled]
            # A body that comes in one piece is copied once, into bytes of its own.
            if self._filled == 0 and len(kept) == self._keep:
                self._body = memoryview(bytes(kept))
            elif len(kept):
                if self._filled == 0:
                    self._body = np.empty(self._keep, np.uint8).data
                self._body[self._filled : self._filled + len(kept)] = kept
            self._filled += len(kept)
            self.held += len(kept)
            if self._left == 0:
                self._left = -1
                if self._flags & COMMAND:
                    self.held -= len(self._body)
                    self._on_command(bytes(self._body))
                elif self._take_frame(self._flags, self._length):
                    yield self._end_message()

    def _whole_frame(self, data: bytes, at: int) -> int:
        """Keep the body of the frame of a message that begins at `at`. Returns where it ends; 0 if it is not
        complete, or is not kept whole."""
        flags, start = data[at], at + 2
        # The longest header has nine bytes; with fewer bytes, `feed` reads the header step by step.
        if flags & COMMAND or len(data) - at < 9:
            return 0
        size = data[at + 1]
        if flags & LONG:
            start, size = at + 9, int.from_bytes(data[at + 1 : at + 9], "big")
        if len(data) - start < size:
            return 0
        self._check_frame(size)
        if not self.joined and self._bytes_to_keep(size) < size:
            return 0
        self._body = memoryview(data[start : start + size])
        self.held += size
        return start + size

    def _end_message(self) -> list[memoryview]:
        message, self._frames, self._body = self._frames, [], _NOTHING
        self._count = self._size = self.held = 0
        return message

    def _begin(self, header: memoryview) -> None:
        if not self._greeted:
            greeting = bytes(header)
            # The signature is 0xFF, eight bytes without meaning, and 0x7F; then comes the version.
            if greeting[0] != 0xFF or greeting[9] & 1 == 0 or greeting[10] < 3:
                raise Broken("it does not speak ZMTP 3")
            if greeting[12:32] != self.mechanism:
                raise self._wrong_mechanism(greeting[12:32])
            self._greeted = True
            self._knows_ping = (greeting[10], greeting[11]) >= (3, 1)
            return
        self._flags = header[0]
        self._left = struct.unpack(">Q", header[1:])[0] if self._flags & LONG else header[1]
        self._length, self._filled = self._left, 0
        if self._flags & COMMAND:
            # A command is one frame, and no known command is long.
            if self._flags & MORE or self._left > MAX_COMMAND:
                raise Broken(f"a command of {self._left} bytes")
            self._count_command()
            self._keep = self._left
        # A peer that skips the handshake has shown neither its socket type nor a key.
        elif not self.ready:
            raise Broken("a message came before READY")
        else:
            # Check the size before any of the frame is kept.
            self._check_frame(self._left)
            self._keep = self._bytes_to_keep(self._left)

    def _wrong_mechanism(self, theirs: bytes) -> Broken:
        """Return the error for a peer that uses another security mechanism than `mechanism`."""
        return Broken(f"its mechanism is {theirs!r}, expected NULL: this server uses no keys")

    def _count_command(self) -> None:
        self._commands += 1
        if self._commands > MAX_COMMANDS:
            raise Broken("a flood of commands")

    def _bytes_to_keep(self, size: int) -> int:
        """Return how many bytes of the next frame, of `size` bytes, are kept. Of a stranger's first frame it
        is only as much as shows that it is too long for a HELLO."""
        if self.joined:
            return size
        return 0 if self._count else min(size, MAX_HELLO + 1)

    def _check_frame(self, size: int) -> None:
        limits = self._limits
        if size > limits.frame:
            raise Broken(f"a frame of {size} bytes, expected at most {limits.frame}")
        if self._count >= limits.frames or self._size + size > limits.message:
            raise Broken(f"a message of more than {limits.frames} frames or {limits.message} bytes")

    def _take_frame(self, flags: int, length: int) -> bool:
        """Add a frame of `length` bytes, of which `_body` was kept. Returns whether the message is
        complete."""
        if self.joined or not self._count:
            self._frames.append(self._body)
        self._count += 1
        self._size += length
        return not flags & MORE

    def _on_command(self, content: bytes) -> None:
        name = content[1 : 1 + content[0]] if content else b""
        body = content[1 + len(name) :]
        if name == b"READY":
            check_properties(body)
            self._end_handshake()
        elif name == b"ERROR":
            raise Broken(f"it reports an error: {body[1:100]!r}")
        elif name == b"PING":
            self._replies.append(command(b"PONG", body[2:18]))

    def _end_handshake(self) -> None:
        self.ready = True
        self.answers_pings = self._knows_ping


def check_properties(body: bytes) -> None:
    """Raise Broken if the properties are not those of a socket that may dial a ROUTER."""
    found: dict[bytes, bytes] = {}
    while body:
        name = body[1 : 1 + body[0]]
        value = body[1 + len(name) :]
        if len(value) < 4 or len(value) < 4 + (size := struct.unpack(">I", value[:4])[0]):
            raise Broken("the properties of its READY cannot be read")
        # ZMTP: the names of properties are not case-sensitive.
        found[name.lower()] = value[4 : 4 + size]
        body = value[4 + size :]
    kind = found.get(b"socket-type", b"")
    if kind not in FRIENDS:
        raise Broken(f"its socket is {kind[:20]!r}, expected DEALER")
