"""The server's side of CurveZMQ, without I/O: the handshake, and the boxes that messages travel in.

`CurveIncoming` decodes what a peer with a key sends: it opens the boxes inside ZMTP frames, and yields whole
messages. It replaces `protocol.zmtp.Incoming`, which serves peers that need no key, and enforces the same
limits.

The handshake has four commands. HELLO shows that the client knows the server's key, WELCOME brings the
server's short-term key S', INITIATE proves the client's long-term key C, and READY ends it. Messages are
boxed with the short-term keys alone, so a long-term key that leaks later opens no recorded session.
Between HELLO and INITIATE the server keeps one random key per connection. It opens the cookie that the
client returns, so a recorded INITIATE is useless on another connection. Source:
https://rfc.zeromq.org/spec/26/ (CurveZMQ); the flags in MESSAGE are those of libzmq 4.3.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

import numpy as np
from nacl._sodium import ffi, lib  # type: ignore[import-not-found, import-untyped, unused-ignore]
from nacl.bindings import (
    crypto_box_beforenm,
    crypto_box_easy_afternm,
    crypto_box_open_easy_afternm,
    crypto_scalarmult_base,
    crypto_secretbox_easy,
    crypto_secretbox_open_easy,
)
from nacl.exceptions import CryptoError

from protocol.keys import KEY_BYTES, KeyOwner, KeyPair, NotNow, OwnerOf
from protocol.zmtp import (
    NULL,
    READY_PROPERTIES,
    Broken,
    Incoming,
    Limits,
    check_properties,
    command,
    frame_header,
    greeting,
)

HELLO_SIZE, COOKIE_SIZE = 200, 96
"""Bytes of HELLO with its name, and of the cookie. HELLO is padded to be longer than WELCOME (168 bytes)."""
VOUCH_SIZE = 80
_HELLO_BEGIN = b"\1\0" + bytes(72)
"""Version and padding."""
SHORT_NONCE, LONG_NONCE, MAC = 8, 16, 16
MESSAGE = b"\x07MESSAGE"
_ALIGNED = 8
"""Offset at which an opened body begins, behind its flags, so that NumPy can read it without a copy."""
BOX_OVERHEAD = len(MESSAGE) + SHORT_NONCE + MAC + 1
"""Bytes that boxing adds to a frame: name, nonce, authenticator, flags."""
MORE, COMMAND = 1, 2
"""Bits of the flags inside a box."""
UNKNOWN_KEY = "400"
"""Reason in ERROR: the client's key is not allowed. ZAP's code, which libzmq's monitor reports."""
WRONG_SERVER_KEY = "500"
"""Reason in ERROR: HELLO cannot be opened because it was made for the key of another server."""
CURVE = b"CURVE".ljust(20, b"\0")
CURVE_GREETING = greeting(CURVE, as_server=True)
NO_KEY = (
    "this server wants a key: run `azclient keygen` here, have `azserver allow` take the key there, and dial "
    "with --server-key"
)
_PING = b"\x04PING"
_PONG = b"\x04PONG"

Random = Callable[[int], bytes]


class CurveIncoming(Incoming):
    """Decodes what one peer sends. Each frame carries a box with flags and body of one frame of a message."""

    mechanism = CURVE
    opening = CURVE_GREETING

    def __init__(self, limits: Limits, handshake: Handshake) -> None:
        super().__init__(limits)
        self._handshake = handshake
        self._pongs: list[bytes] = []

    def is_revoked(self) -> bool:
        try:
            # A key with another role or name counts as revoked, too: the session was welcomed under the old
            # one.
            return self.owner is not None and self._handshake.owner_of(self._handshake.key) != self.owner
        except NotNow:
            return False

    def take_replies(self) -> bytes:
        """Return and clear the replies. PONGs are boxed only now, because boxes must be sent in the order in
        which they were made."""
        said = super().take_replies() + b"".join(self._boxed(COMMAND, _PONG + one) for one in self._pongs)
        self._pongs.clear()
        return said

    def wire(self, frames: Sequence[bytes | memoryview]) -> list[bytes | memoryview]:
        """Return a message to the peer as the buffers to send. They must be sent in the order of the
        calls."""
        flags = [MORE] * (len(frames) - 1) + [0]
        return [self._boxed(flag, frame) for flag, frame in zip(flags, frames, strict=True)]

    def ping(self) -> bytes:
        return self._boxed(COMMAND, _PING + b"\0\0")

    @property
    def _boxes(self) -> Boxes:
        boxes = self._handshake.boxes
        assert boxes is not None, "no message goes either way before the handshake is done"
        return boxes

    def _boxed(self, flags: int, body: bytes | memoryview) -> bytes:
        content = self._boxes.seal(flags, body)
        return frame_header(len(content), more=False) + content

    def _wrong_mechanism(self, theirs: bytes) -> Broken:
        if theirs == NULL:
            return Broken("it has no key; `azclient keygen` there and `azserver allow` here", error(NO_KEY))
        return super()._wrong_mechanism(theirs)

    def _on_command(self, content: bytes) -> None:
        # After the handshake everything travels in boxes. A command outside of one is not authenticated.
        if self.ready:
            raise Broken("a command outside of a box")
        self._replies.append(self._handshake.on_command(content))
        if self._handshake.boxes is not None:
            self.owner = self._handshake.owner
            self._end_handshake()

    def _bytes_to_keep(self, size: int) -> int:
        return size  # part of a box cannot be opened

    def _check_frame(self, size: int) -> None:
        if size > (most := self._limits.frame + BOX_OVERHEAD):
            raise Broken(f"a frame of {size} bytes, expected at most {most}")

    def _take_frame(self, flags: int, length: int) -> bool:
        if flags & MORE:
            raise Broken("a box in several frames")
        self.held -= length
        flags, body = self._boxes.open(self._body)
        if flags & COMMAND:
            self._count_command()
            # PING has two bytes of TTL, then a context of at most 16 bytes (ZMTP), which PONG returns.
            if body[: len(_PING)] == _PING:
                self._pongs.append(bytes(body[len(_PING) + 2 :][:16]))
            self._body = memoryview(b"")  # it may be large
            return False
        length = len(body)
        super()._check_frame(length)
        # Of a stranger's message, copy what is kept, because a view would keep the whole frame in memory.
        if not self.joined:
            body = memoryview(bytes(body[: super()._bytes_to_keep(length)]))
        self.held += len(body)
        self._body = body
        return super()._take_frame(flags, length)


class Handshake:
    """The handshake of one connection, from the greeting to READY, which sets `boxes` and `owner`."""

    def __init__(self, server: KeyPair, owner_of: OwnerOf, random: Random) -> None:
        """`random(n)` must return n unpredictable bytes."""
        self.boxes: Boxes | None = None
        self.owner: KeyOwner | None = None
        self.key = b""
        """The client's public key."""
        self._server = server
        self.owner_of = owner_of
        self._random = random
        self._cookie_key = b""
        self._expected = b"HELLO"
        """Name of the next command; empty after the last one."""

    def on_command(self, content: bytes) -> bytes:
        """Return the command that answers this one, as a frame. Raises Broken, sometimes with an ERROR to
        send."""
        name = self._expected
        if not name or not content.startswith(bytes((len(name),)) + name):
            raise Broken(f"it sent {content[1:9]!r}, expected {name.decode()}")
        return self._on_hello(content) if name == b"HELLO" else self._on_initiate(content)

    def _on_hello(self, hello: bytes) -> bytes:
        if len(hello) != HELLO_SIZE or hello[6:80] != _HELLO_BEGIN:
            raise Broken("its HELLO is none of CurveZMQ 1")
        client, nonce, box = hello[80:112], hello[112:120], hello[120:]
        key = _shared(client, self._server.secret)
        try:
            signature = crypto_box_open_easy_afternm(box, b"CurveZMQHELLO---" + nonce, key)
        except CryptoError:
            raise Broken("it does not have this server's key", error(WRONG_SERVER_KEY)) from None
        # The content is 64 zeros: the proof is that the box opens.
        if any(signature):
            raise Broken("its HELLO is signed wrongly")
        secret = self._random(KEY_BYTES)
        # This key serves one connection alone: it opens the cookie that comes back with INITIATE.
        self._cookie_key = self._random(KEY_BYTES)
        tail = self._random(LONG_NONCE)
        cookie = tail + crypto_secretbox_easy(client + secret, b"COOKIE--" + tail, self._cookie_key)
        tail = self._random(LONG_NONCE)
        box = crypto_box_easy_afternm(crypto_scalarmult_base(secret) + cookie, b"WELCOME-" + tail, key)
        self._expected = b"INITIATE"
        return command(b"WELCOME", tail + box)

    def _on_initiate(self, initiate: bytes) -> bytes:
        # Everything but the properties has a fixed length.
        if len(initiate) < 9 + COOKIE_SIZE + SHORT_NONCE + MAC + KEY_BYTES + LONG_NONCE + VOUCH_SIZE:
            raise Broken("its INITIATE is too short")
        cookie, nonce, box = initiate[9:105], initiate[105:113], initiate[113:]
        # The cookie's key is used only once, so nobody can replay the cookie.
        cookie_key, self._cookie_key = self._cookie_key, b""
        try:
            tail = cookie[:LONG_NONCE]
            opened = crypto_secretbox_open_easy(cookie[LONG_NONCE:], b"COOKIE--" + tail, cookie_key)
        except CryptoError:
            raise Broken("its cookie is none of this connection") from None
        client, secret = opened[:KEY_BYTES], opened[KEY_BYTES:]
        key = _shared(client, secret)
        plain = _opened(box, b"CurveZMQINITIATE" + nonce, key, "its INITIATE was changed on its way")
        # `plain` holds the long-term key, the nonce of the vouch, the vouch, and the properties. The
        # long-term key must vouch to this server for the short-term key C' = `client`. Only a peer that holds
        # a key learns whether the key is allowed.
        long_term, tail, vouch = plain[:KEY_BYTES], plain[32:48], plain[48:128]
        said = _opened(vouch, b"VOUCH---" + tail, _shared(long_term, secret), "nobody vouches for its key")
        if said != client + self._server.public:
            raise Broken("its key vouches for another connection")
        owner = self.owner_of(long_term)
        if owner is None:
            raise Broken("its key is not allowed; `azserver allow` takes it", error(UNKNOWN_KEY))
        check_properties(plain[128:])
        self.owner, self.key = owner, long_term
        self.boxes = Boxes(key, b"CurveZMQMESSAGES", b"CurveZMQMESSAGEC")
        # Nonces grow throughout a connection, so the first MESSAGE must have a larger one than INITIATE.
        self.boxes.last_nonce = int.from_bytes(nonce, "big")
        self._expected = b""
        first = struct.pack(">Q", 1)  # `Boxes` counts on from here
        ready = crypto_box_easy_afternm(READY_PROPERTIES, b"CurveZMQREADY---" + first, key)
        return command(b"READY", first + ready)


def error(reason: str) -> bytes:
    """Return the ERROR command."""
    text = reason.encode()[:255]
    return command(b"ERROR", bytes((len(text),)) + text)


def _shared(public: bytes, secret: bytes) -> bytes:
    """Return the shared key of two key pairs, 32 bytes. Raises Broken if `public` is not a valid public
    key."""
    try:
        return crypto_box_beforenm(public, secret)
    except (CryptoError, RuntimeError, ValueError):
        raise Broken("its public key is not a point of the curve") from None


def _opened(box: bytes, nonce: bytes, key: bytes, reason: str) -> bytes:
    try:
        return crypto_box_open_easy_afternm(box, nonce, key)
    except CryptoError:
        raise Broken(reason) from None


class Boxes:
    """Seals and opens the messages of one connection with the key derived from both short-term key pairs.

    It calls libsodium directly: PyNaCl's functions copy a box up to three times, so 5 MiB take 8 ms instead
    of 5.
    """

    def __init__(self, key: bytes, ours: bytes, theirs: bytes) -> None:
        """`ours` and `theirs` are the 16 bytes before the nonce of outgoing and of incoming boxes."""
        self.last_nonce = 0
        """Last short nonce received from the peer; the next one must be larger."""
        self._key = key
        self._ours, self._theirs = ours, theirs
        self._sent = 1
        """Last short nonce sent; READY has used 1."""

    def seal(self, flags: int, body: bytes | memoryview) -> bytearray:
        """Return the content of a MESSAGE."""
        self._sent += 1
        nonce = struct.pack(">Q", self._sent)
        size, start = len(body) + 1, len(MESSAGE) + SHORT_NONCE
        content = bytearray(start + MAC + size)
        content[:start] = MESSAGE + nonce
        content[start + MAC] = flags
        content[start + MAC + 1 :] = body
        box = ffi.from_buffer(content) + start
        lib.crypto_box_easy_afternm(box, box + MAC, size, self._ours + nonce, self._key)
        return content

    def open(self, content: bytes | memoryview) -> tuple[int, memoryview]:
        """Return flags and body of a MESSAGE. Raises Broken if the peer did not box it, or has sent it
        before."""
        if len(content) < BOX_OVERHEAD or content[: len(MESSAGE)] != MESSAGE:
            raise Broken("a frame that is no MESSAGE of CURVE")
        nonce = bytes(content[len(MESSAGE) : len(MESSAGE) + SHORT_NONCE])
        number = int.from_bytes(nonce, "big")
        # This makes a recorded box useless, and refuses boxes out of order.
        if number <= self.last_nonce:
            raise Broken("a MESSAGE that came before, or out of order")
        box = memoryview(content)[len(MESSAGE) + SHORT_NONCE :]
        # The flags take one byte; place the box so that the body behind them is aligned.
        room = np.empty(_ALIGNED - 1 + len(box) - MAC, np.uint8).data
        plain = ffi.from_buffer(room[_ALIGNED - 1 :])
        if lib.crypto_box_open_easy_afternm(
            plain, ffi.from_buffer(box), len(box), self._theirs + nonce, self._key
        ):
            raise Broken("a MESSAGE was changed on its way")
        # Trust the number only now that the box could be opened: a forged box may claim any number.
        self.last_nonce = number
        return room[_ALIGNED - 1], room[_ALIGNED:].toreadonly()
