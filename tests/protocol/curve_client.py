"""A slow and simple client of CurveZMQ, written from RFC 26: each box is made anew with `nacl.public.Box`."""

import struct
from collections.abc import Sequence

from nacl.public import Box, PrivateKey, PublicKey
from raw_zmtp import frame

GREETING = b"\xff\0\0\0\0\0\0\0\x01\x7f" + b"\x03\x01" + b"CURVE".ljust(20, b"\0") + bytes(32)


class CurveClient:
    """Makes a client's commands, and reads the server's without their frame header."""

    def __init__(self, server: bytes, secret: bytes, short_term: bytes = b"\x05" * 32) -> None:
        self.server = PublicKey(server)
        self.long_term = PrivateKey(secret)
        self.short_term = PrivateKey(short_term)
        self.server_short_term = PublicKey(bytes(32))
        self.cookie = b""
        self.number = 0

    def nonce(self) -> bytes:
        self.number += 1
        return struct.pack(">Q", self.number)

    def hello(self) -> bytes:
        nonce = self.nonce()
        signature = (
            Box(self.short_term, self.server).encrypt(bytes(64), b"CurveZMQHELLO---" + nonce).ciphertext
        )
        return b"\x05HELLO" + b"\1\0" + bytes(72) + bytes(self.short_term.public_key) + nonce + signature

    def on_welcome(self, welcome: bytes) -> None:
        assert len(welcome) == 168
        assert welcome.startswith(b"\x07WELCOME")
        plain = Box(self.short_term, self.server).decrypt(welcome[24:], b"WELCOME-" + welcome[8:24])
        self.server_short_term, self.cookie = PublicKey(plain[:32]), plain[32:]

    def initiate(self, properties: bytes = b"\x0bSocket-Type\0\0\0\x06DEALER") -> bytes:
        nonce, tail = self.nonce(), b"\x07" * 16
        vouch = (
            Box(self.long_term, self.server_short_term)
            .encrypt(bytes(self.short_term.public_key) + bytes(self.server), b"VOUCH---" + tail)
            .ciphertext
        )
        plain = bytes(self.long_term.public_key) + tail + vouch + properties
        box = self.box.encrypt(plain, b"CurveZMQINITIATE" + nonce).ciphertext
        return b"\x08INITIATE" + self.cookie + nonce + box

    def on_ready(self, ready: bytes) -> bytes:
        """Return the server's properties."""
        assert ready.startswith(b"\x05READY")
        return self.box.decrypt(ready[14:], b"CurveZMQREADY---" + ready[6:14])

    def message(self, frames: Sequence[bytes]) -> bytes:
        """Return a whole message as it goes over the wire."""
        flags = [1] * (len(frames) - 1) + [0]
        return b"".join(frame(self.boxed(flag, body)) for flag, body in zip(flags, frames, strict=True))

    def boxed(self, flags: int, body: bytes) -> bytes:
        nonce = self.nonce()
        box = self.box.encrypt(bytes([flags]) + body, b"CurveZMQMESSAGEC" + nonce).ciphertext
        return b"\x07MESSAGE" + nonce + box

    def opened(self, content: bytes) -> tuple[int, bytes]:
        """Return flags and body of a MESSAGE of the server."""
        plain = self.box.decrypt(content[16:], b"CurveZMQMESSAGES" + content[8:16])
        return plain[0], plain[1:]

    @property
    def box(self) -> Box:
        return Box(self.short_term, self.server_short_term)
