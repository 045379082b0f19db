"""CURVE's decoders for the fuzzer: what anybody may send before the handshake is done, and what somebody with
an allowed key may put into boxes."""

from functools import cache

from curve_client import GREETING, CurveClient
from nacl.public import PrivateKey
from raw_zmtp import COMMAND, frame

from protocol.curve import Boxes, CurveIncoming, Handshake
from protocol.keys import KeyOwner, KeyPair
from protocol.zmtp import MAX_COMMANDS, Limits

LIMITS = Limits(frame=4096, message=8192, frames=8)
SERVER = KeyPair(bytes(PrivateKey(b"\1" * 32).public_key), b"\1" * 32)
CLIENT_SECRET = b"\2" * 32
OWNERS = {bytes(PrivateKey(CLIENT_SECRET).public_key): KeyOwner("lab-3", "client")}


def _incoming() -> CurveIncoming:
    """Make a new connection. Its random bytes are always the same, so that a recorded handshake fits."""
    return CurveIncoming(LIMITS, Handshake(SERVER, OWNERS.get, lambda size: b"\3" * size))


@cache
def handshakes() -> list[bytes]:
    """Streams of an honest client: up to HELLO, up to INITIATE, and with messages behind it."""
    server, client = _incoming(), CurveClient(SERVER.public, CLIENT_SECRET)
    begin = GREETING + frame(client.hello(), COMMAND)
    list(server.feed(begin))
    client.on_welcome(server.take_replies()[2:])
    joined = begin + frame(client.initiate(), COMMAND)
    return [begin, joined, joined + client.message([b"one", b"x" * 300]) + client.message([b""])]


def read_handshake(data: bytes) -> None:
    """Feed the input in two pieces to a new connection."""
    server, middle = _incoming(), data[-1] if data else 0
    for piece in (data[:middle], data[middle:]):
        for parts in server.feed(piece):
            assert server.owner is not None, "a message of somebody without a key"
            assert sum(map(len, parts)) <= LIMITS.message
        server.take_replies()
    assert server.held <= 2 * LIMITS.message


@cache
def contents() -> list[bytes]:
    """Return inputs that describe boxes: flags, the length of the body in two bytes, and the body of each."""
    ping = b"\x04PING\0\x10context"
    several = [
        (1, b"head"),
        (1, b""),
        (0, b"x" * 500),
        (2, ping),
        (0, b"next"),
        (2, b"\x09SUBSCRIBEt"),
        (3, ping),
    ]
    too_many = [[(1, b"x")] * LIMITS.frames + [(0, b"")], [(2, ping)] * (MAX_COMMANDS + 1)]
    together = [b"".join(map(_content, boxes)) for boxes in (several, *too_many)]
    return [*together, *map(_content, several)]


def _content(box: tuple[int, bytes]) -> bytes:
    flags, body = box
    return bytes((flags,)) + len(body).to_bytes(2, "big") + body


def read_boxes(data: bytes) -> None:
    """Box the input as somebody with an allowed key does, and have the server read it."""
    server = _incoming()
    list(server.feed(handshakes()[1]))
    server.take_replies()
    server.joined = len(data) % 2 == 0
    ours = Boxes(server._boxes._key, b"CurveZMQMESSAGEC", b"CurveZMQMESSAGES")
    ours._sent = server._boxes.heard
    sent, at = b"", 0
    while at < len(data) and len(sent) < 4 * LIMITS.message:
        size = int.from_bytes(data[at + 1 : at + 3], "big") % (LIMITS.frame + 64)
        sent += frame(ours.seal(data[at], data[at + 3 : at + 3 + size]))
        at += 3 + size
    for parts in server.feed(sent):
        assert sum(map(len, parts)) <= LIMITS.message
    server.take_replies()
    assert server.held <= 2 * LIMITS.message
