"""CURVE's decoder for the fuzzer: what anybody may send before the handshake is done. What somebody with an
allowed key may put into boxes: tests/protocol/test_curve.py."""

from functools import cache

from curve_client import GREETING, CurveClient
from nacl.public import PrivateKey
from raw_zmtp import COMMAND, frame

from protocol.curve import CurveIncoming, Handshake
from protocol.keys import KeyOwner, KeyPair
from protocol.zmtp import Limits

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
