"""The server's side of CurveZMQ, tested with a client written from the RFC: who gets in, and what comes
through."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import pytest
from curve_client import GREETING, CurveClient
from hypothesis import given
from hypothesis import strategies as st
from nacl.exceptions import CryptoError
from nacl.public import PrivateKey
from raw_zmtp import COMMAND, frame

from protocol.curve import MORE, Boxes, CurveIncoming, Handshake
from protocol.keys import KeyOwner, KeyPair, NotNow, role_refusal
from protocol.messages import MAX_HELLO
from protocol.zmtp import MAX_COMMAND, MAX_COMMANDS, Broken, Incoming, Limits

LIMITS = Limits(frame=5000, message=6000, frames=5)
SERVER_SECRET, CLIENT_SECRET = b"\x11" * 32, b"\x22" * 32
SERVER = KeyPair(bytes(PrivateKey(SERVER_SECRET).public_key), SERVER_SECRET)
CLIENT = bytes(PrivateKey(CLIENT_SECRET).public_key)
ALLOWED = {CLIENT: KeyOwner("lab-3", "client")}
PING = b"\x04PING\0\x10context"
messages = st.lists(st.binary(max_size=300), min_size=1, max_size=5)


def counted() -> Iterator[bytes]:
    number = 0
    while True:
        number += 1
        yield bytes([number % 256]) * 32


def handshake() -> Handshake:
    """Return a handshake with random bytes that are the same every time."""
    pieces = counted()
    return Handshake(SERVER, ALLOWED.get, lambda size: next(pieces)[:size])


@dataclass
class Pair:
    client: CurveClient
    server: CurveIncoming

    def say(self, data: bytes) -> list[list[bytes]]:
        return [[bytes(part) for part in parts] for parts in self.server.feed(data)]

    def heard(self) -> list[tuple[int, bytes]]:
        """Return what the server has sent, as flags and bodies of frames."""
        return unframed(self.server.take_replies())


def unframed(data: bytes) -> list[tuple[int, bytes]]:
    found = []
    while data:
        size, start = (int.from_bytes(data[1:9], "big"), 9) if data[0] & 2 else (data[1], 2)
        found.append((data[0] & ~2, data[start : start + size]))
        data = data[start + size :]
    return found


def pair(*, secret: bytes = CLIENT_SECRET, server: bytes = SERVER.public) -> Pair:
    return Pair(CurveClient(server, secret), CurveIncoming(LIMITS, handshake()))


def greeted(one: Pair) -> Pair:
    """Run the handshake up to INITIATE, which is not sent."""
    assert one.say(GREETING + frame(one.client.hello(), COMMAND)) == []
    ((_, welcome),) = one.heard()
    one.client.on_welcome(welcome)
    return one


def joined() -> Pair:
    one = greeted(pair())
    assert one.say(frame(one.client.initiate(), COMMAND)) == []
    ((_, ready),) = one.heard()
    assert b"ROUTER" in one.client.on_ready(ready)
    one.server.joined = True
    return one


def test_an_allowed_key_gets_in_under_its_name_and_messages_go_both_ways() -> None:
    one = joined()
    assert (one.server.ready, one.server.owner) == (True, KeyOwner("lab-3", "client"))
    assert one.say(one.client.message([b"head", bytes(5000), b""])) == [[b"head", bytes(5000), b""]]
    sent = unframed(b"".join(map(bytes, one.server.wire([b"answer", bytes(300)]))))
    assert [one.client.opened(content) for _, content in sent] == [(1, b"answer"), (0, bytes(300))]


@given(st.lists(messages, max_size=3), st.lists(st.integers(0, 3000), max_size=10))
def test_messages_come_out_whole_wherever_the_bytes_were_cut(
    sent: list[list[bytes]], cuts: list[int]
) -> None:
    one = joined()
    data = b"".join(map(one.client.message, sent))
    ends = sorted({cut % (len(data) + 1) for cut in cuts} | {len(data)})
    pieces = [data[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    assert [message for piece in pieces for message in one.say(piece)] == sent
    assert one.server.held == 0


@given(st.lists(messages, min_size=1, max_size=3), st.integers(0), st.integers(1, 255))
def test_what_was_changed_on_its_way_is_not_delivered(
    sent: list[list[bytes]], place: int, change: int
) -> None:
    """What arrives before the connection breaks is a beginning of what was sent."""
    one = joined()
    data = bytearray(b"".join(map(one.client.message, sent)))
    data[place % len(data)] ^= change
    out: list[list[bytes]] = []
    with suppress(Broken):
        for parts in one.server.feed(bytes(data)):
            out.append([bytes(part) for part in parts])
    assert out == sent[: len(out)]


@given(st.sampled_from(["HELLO", "INITIATE"]), st.integers(0), st.integers(1, 255))
def test_a_handshake_that_was_changed_ends_the_connection(stage: str, place: int, change: int) -> None:
    one = pair() if stage == "HELLO" else greeted(pair())
    content = bytearray(one.client.hello() if stage == "HELLO" else one.client.initiate())
    content[place % len(content)] ^= change
    with pytest.raises(Broken):
        one.say((GREETING if stage == "HELLO" else b"") + frame(bytes(content), COMMAND))
    assert not one.server.ready


@given(st.integers(0), st.integers(1, 255))
def test_a_client_notices_a_changed_answer(place: int, change: int) -> None:
    one = joined()
    ((_, content),) = unframed(bytes(one.server.wire([b"answer"])[0]))
    changed = bytearray(content)
    changed[8 + place % (len(content) - 8)] ^= change
    with pytest.raises(CryptoError):
        one.client.opened(bytes(changed))


def test_a_message_sent_twice_or_out_of_order_ends_the_connection() -> None:
    one = joined()
    first, second = one.client.message([b"1"]), one.client.message([b"2"])
    assert one.say(first) == [[b"1"]]
    with pytest.raises(Broken, match="before"):
        one.say(first)
    one = joined()
    first, second = one.client.message([b"1"]), one.client.message([b"2"])
    assert one.say(second) == [[b"2"]]
    with pytest.raises(Broken, match="before"):
        one.say(first)


def test_a_recorded_handshake_is_of_no_use_on_another_connection() -> None:
    recorded = greeted(pair())
    hello, initiate = recorded.client.hello(), recorded.client.initiate()
    other = pair()
    other.server = CurveIncoming(LIMITS, Handshake(SERVER, ALLOWED.get, lambda size: bytes([99]) * size))
    other.say(GREETING + frame(hello, COMMAND))
    with pytest.raises(Broken, match="cookie"):
        other.say(frame(initiate, COMMAND))


@pytest.mark.parametrize("named", [CLIENT_SECRET, b"\x44" * 32], ids=["allowed", "unknown"])
def test_nobody_passes_with_the_public_key_of_another_nor_learns_whether_it_is_allowed(named: bytes) -> None:
    """The connection ends in the same way and without an ERROR, whether or not the key is allowed."""
    one = greeted(pair(secret=b"\x33" * 32))
    forged = one.client
    honest = CurveClient(SERVER.public, named)
    forged.long_term = type("Claims", (), {"public_key": honest.long_term.public_key})()  # type: ignore
    plain_vouch = bytes(80)
    nonce = forged.nonce()
    plain = bytes(honest.long_term.public_key) + bytes(16) + plain_vouch + b"\x0bSocket-Type\0\0\0\x06DEALER"
    box = forged.box.encrypt(plain, b"CurveZMQINITIATE" + nonce).ciphertext
    with pytest.raises(Broken, match="nobody vouches for its key") as caught:
        one.say(frame(b"\x08INITIATE" + forged.cookie + nonce + box, COMMAND))
    assert caught.value.answer == b""


def test_a_client_of_another_server_is_told_that_its_key_is_wrong() -> None:
    one = pair(server=bytes(PrivateKey(b"\x44" * 32).public_key))
    with pytest.raises(Broken) as caught:
        one.say(GREETING + frame(one.client.hello(), COMMAND))
    assert unframed(caught.value.answer) == [(COMMAND, b"\x05ERROR\x03500")]


def test_a_peer_without_a_key_is_told_what_to_do() -> None:
    one = pair()
    with pytest.raises(Broken, match="azclient keygen") as caught:
        one.say(Incoming.opening)
    ((flags, content),) = unframed(caught.value.answer)
    assert (flags, content[:6]) == (COMMAND, b"\x05ERROR")
    assert b"azclient keygen" in content


def test_nobody_is_let_in_while_the_allowed_keys_cannot_be_read() -> None:
    def unreadable(_: bytes) -> KeyOwner:
        raise NotNow

    one = pair()
    pieces = counted()
    one.server = CurveIncoming(LIMITS, Handshake(SERVER, unreadable, lambda size: next(pieces)[:size]))
    greeted(one)
    with pytest.raises(NotNow):
        one.say(frame(one.client.initiate(), COMMAND))
    assert not one.server.ready


@pytest.mark.parametrize("stage", ["HELLO", "INITIATE"])
def test_a_command_of_the_handshake_is_short_whatever_it_says_of_its_length(stage: str) -> None:
    """Otherwise endless metadata would have to be kept until they can be opened."""
    one = pair() if stage == "HELLO" else greeted(pair())
    content = one.client.hello() if stage == "HELLO" else one.client.initiate()
    begin = GREETING if stage == "HELLO" else b""
    with pytest.raises(Broken, match="a command of"):
        one.say(begin + frame(content + bytes(MAX_COMMAND), COMMAND)[:20])
    assert one.server.held == 0


def test_nothing_goes_before_the_handshake_and_no_command_after_it_outside_a_box() -> None:
    one = greeted(pair())
    with pytest.raises(Broken, match="before READY"):
        one.say(frame(b"hello"))
    with pytest.raises(Broken, match="outside of a box"):
        joined().say(frame(b"\x04PING\0\0", COMMAND))
    with pytest.raises(Broken, match="no MESSAGE"):
        joined().say(frame(b"x" * 100))
    with pytest.raises(Broken, match="several frames"):
        joined().say(frame(b"x" * 100, MORE))


def test_a_ping_in_a_box_is_answered_in_a_box_after_what_was_sent_before() -> None:
    one = joined()
    assert one.say(frame(one.client.boxed(2, b"\x04PING\0\x10here"))) == []
    sent = b"".join(map(bytes, one.server.wire([b"first"])))
    contents = [content for _, content in unframed(sent)] + [content for _, content in one.heard()]
    assert [one.client.opened(content) for content in contents] == [(0, b"first"), (2, b"\x04PONGhere")]
    numbers = [int.from_bytes(content[8:16], "big") for content in contents]
    assert numbers == sorted(set(numbers))
    with pytest.raises(Broken, match="flood"):
        one.say(b"".join(frame(one.client.boxed(2, b"\x04PING\0\0")) for _ in range(MAX_COMMANDS + 1)))


def test_without_a_session_only_the_beginning_of_frame_0_is_kept() -> None:
    one = joined()
    one.server.joined = False
    assert one.say(one.client.message([bytes(4999), b"x" * 900])) == [[bytes(MAX_HELLO + 1)]]
    assert one.server.held == 0


@pytest.mark.parametrize(
    "frames", [[bytes(5001)], [bytes(3000)] * 3, [b""] * 6], ids=["frame", "message", "frames"]
)
def test_limits_are_those_of_a_peer_without_a_key(frames: list[bytes]) -> None:
    one = joined()
    with pytest.raises(Broken, match=r"expected at most|more than"):
        one.say(one.client.message(frames))


boxes = st.tuples(
    st.integers(0, 3) | st.integers(0, 255),
    st.binary(max_size=40) | st.integers(0, LIMITS.frame + 1).map(bytes) | st.sampled_from([PING, PING[:6]]),
)


@given(st.lists(boxes, max_size=MAX_COMMANDS + 2), st.booleans())
def test_whatever_an_allowed_peer_puts_into_boxes_is_a_message_or_ends_its_connection(
    sent: list[tuple[int, bytes]], has_session: bool
) -> None:
    one = joined()
    one.server.joined = has_session
    with suppress(Broken):
        for parts in one.server.feed(b"".join(frame(one.client.boxed(*box)) for box in sent)):
            assert sum(map(len, parts)) <= LIMITS.message
    assert one.server.held <= 2 * LIMITS.message


def test_a_secret_is_in_no_text_of_these_objects() -> None:
    one = joined()
    text = repr(SERVER) + str(SERVER) + repr(one.server) + repr(handshake())
    assert repr(SERVER_SECRET)[2:-1] not in text
    assert "secret" not in repr(SERVER)


@pytest.mark.parametrize(
    ("key", "roles"),
    [("client", {"client", "watcher"}), ("trainer", {"trainer", "watcher"}), ("watcher", {"watcher"})],
)
def test_a_key_allows_the_roles_of_its_kind(key: str, roles: set[str]) -> None:
    owner = KeyOwner("one", key)  # type: ignore[arg-type]
    everybody = ("worker", "client", "trainer", "watcher")
    assert {role for role in everybody if role_refusal(owner, role) is None} == roles
    assert all(role_refusal(None, role) is None for role in everybody)


@pytest.mark.parametrize("size", [0, 1, 8, 1000, 8 * 4096])
def test_an_opened_body_is_read_where_it_is_and_cannot_be_changed(size: int) -> None:
    """Features are 64-bit words: if their memory were not aligned, each message would be copied once more."""
    key, body = b"\x0a" * 32, bytes(range(256)) * (size // 256) + bytes(size % 256)
    ours, theirs = b"CurveZMQMESSAGES", b"CurveZMQMESSAGEC"
    sealed = Boxes(key, ours, theirs).seal(MORE, body)
    flags, opened = Boxes(key, theirs, ours).open(sealed)
    assert (flags, bytes(opened), opened.readonly) == (MORE, body, True)
    assert not size or np.frombuffer(opened, np.uint8).ctypes.data % 8 == 0
