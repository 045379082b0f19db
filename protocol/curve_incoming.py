"""Decodes what a peer with a key sends: ZMTP frames outside, boxes inside them, whole messages out.

It replaces `protocol.zmtp.Incoming`, which serves peers that need no key, and enforces the same limits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from protocol import curve
from protocol.curve import BOX_OVERHEAD, Boxes, Handshake, NotNow, OwnerOf
from protocol.keys import KeyOwner
from protocol.messages import MAX_HELLO
from protocol.zmtp import MAX_COMMANDS, NULL, Broken, Incoming, Limits, frame_header, greeting

CURVE = b"CURVE".ljust(20, b"\0")
CURVE_GREETING = greeting(CURVE, as_server=True)
NO_KEY = (
    "this server wants a key: run `azclient keygen` here, have `azserver allow` take the key there, and dial "
    "with --server-key"
)
_PING = b"\x04PING"
_PONG = b"\x04PONG"


class _Outer(Incoming):
    """Reads the greeting, the handshake, and the frames that carry boxes."""

    mechanism = CURVE

    def __init__(self, limits: Limits, handshake: Handshake) -> None:
        size = limits.frame + BOX_OVERHEAD
        super().__init__(Limits(frame=size, message=size, frames=1))
        self._handshake = handshake

    def _wrong_mechanism(self, theirs: bytes) -> Broken:
        if theirs == NULL:
            return Broken(
                "it has no key; `azclient keygen` there and `azserver allow` here", curve.error(NO_KEY)
            )
        return super()._wrong_mechanism(theirs)

    def _on_command(self, content: bytes) -> None:
        if self.ready:
            raise Broken("a command outside of a box")
        self.replies.append(self._handshake.on_command(content))
        if self._handshake.boxes is not None:
            self._end_handshake()
            self.joined = True  # keep whole frames: part of a box cannot be opened


class CurveIncoming:
    """Decodes what one peer sends. Attributes and methods as in `protocol.zmtp.Incoming`."""

    opening = CURVE_GREETING

    def __init__(self, limits: Limits, handshake: Handshake) -> None:
        self.joined = False
        self._limits = limits
        self._handshake = handshake
        self._outer = _Outer(limits, handshake)
        self._frames: list[memoryview] = []
        self._count = self._size = self._kept = 0
        """Frames and bytes of the message so far, and how many of those bytes are kept."""
        self._commands = 0
        self._pongs: list[bytes] = []

    @property
    def ready(self) -> bool:
        return self._outer.ready

    @property
    def answers_pings(self) -> bool:
        return self._outer.answers_pings

    @property
    def owner(self) -> KeyOwner | None:
        """The owner of the key that the peer has proved to hold; None before the handshake is done."""
        return self._handshake.owner

    def is_revoked(self, owner_of: OwnerOf) -> bool:
        """Return whether the key the peer joined with is no longer allowed, or now has another owner or
        role."""
        try:
            return self.owner is not None and owner_of(self._handshake.key) != self.owner
        except NotNow:
            return False

    @property
    def held(self) -> int:
        return self._outer.held + self._kept

    @property
    def replies(self) -> bool:
        """Whether there is something to send to the peer outside of messages."""
        return bool(self._outer.replies or self._pongs)

    def take_replies(self) -> bytes:
        """Box the replies only now: boxes must be sent in the order in which they were made."""
        said = self._outer.take_replies() + b"".join(
            self._boxed(curve.COMMAND, _PONG + one) for one in self._pongs
        )
        self._pongs.clear()
        return said

    def wire(self, frames: Sequence[bytes | memoryview]) -> list[bytes | memoryview]:
        """Return a message to the peer as the buffers to send. They must be sent in the order of the
        calls."""
        flags = [curve.MORE] * (len(frames) - 1) + [0]
        return [self._boxed(flag, frame) for flag, frame in zip(flags, frames, strict=True)]

    def ping(self) -> bytes:
        return self._boxed(curve.COMMAND, _PING + b"\0\0")

    def feed(self, data: bytes) -> Iterator[list[memoryview]]:
        """Yield the messages that `data` completes, each as its frames. Raises Broken.

        For a peer without a session a message is only its frame 0, cut off after `MAX_HELLO` + 1 bytes.
        """
        self._commands = 0
        for (content,) in self._outer.feed(data):
            flags, body = self._boxes.open(content)
            if flags & curve.COMMAND:
                self._on_command(bytes(body))
                continue
            self._take(body)
            if not flags & curve.MORE:
                message, self._frames = self._frames, []
                self._count = self._size = self._kept = 0
                yield message

    @property
    def _boxes(self) -> Boxes:
        boxes = self._handshake.boxes
        assert boxes is not None, "no message goes either way before the handshake is done"
        return boxes

    def _boxed(self, flags: int, body: bytes | memoryview) -> bytes:
        content = self._boxes.seal(flags, body)
        return frame_header(len(content), more=False) + content

    def _take(self, body: memoryview) -> None:
        limits = self._limits
        if self._count >= limits.frames or self._size + len(body) > limits.message:
            raise Broken(f"a message of more than {limits.frames} frames or {limits.message} bytes")
        self._size += len(body)
        if not self.joined:
            body = memoryview(bytes(body[: MAX_HELLO + 1]))
        if self.joined or not self._count:
            self._frames.append(body)
            self._kept += len(body)
        self._count += 1

    def _on_command(self, content: bytes) -> None:
        self._commands += 1
        if self._commands > MAX_COMMANDS:
            raise Broken("a flood of commands")
        if content.startswith(_PING):
            self._pongs.append(content[len(_PING) + 2 :][:16])
