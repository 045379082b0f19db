"""Every message is read back from its bytes as it was; arbitrary bytes never cause more than BadMessage."""

import msgpack
import pytest
from hypothesis import given
from message_examples import CLASSES, EXAMPLES, messages

from protocol.messages import BadMessage, Hello, Message, Ping, Pong, decode, encode


def test_every_message_has_an_example() -> None:
    """A new message needs an example in message_examples.py, and with it a golden file."""
    assert {type(example) for example in EXAMPLES} == set(CLASSES)


@given(messages())
def test_messages_survive_their_bytes(message: Message) -> None:
    assert decode(encode(message)) == message
    assert decode(memoryview(encode(message))) == message


@given(messages())
def test_an_independent_decoder_reads_the_same(message: Message) -> None:
    """The wire is plain MessagePack: a map with `type` and the fields by name."""
    seen = msgpack.unpackb(encode(message), strict_map_key=True)
    assert seen.pop("type") == message.__struct_config__.tag
    assert set(seen) == set(message.__struct_fields__)


@pytest.mark.parametrize(
    "wire",
    [
        {"type": "hello", "protocol": 1, "role": "admin"},
        {"type": "hello", "protocol": 1, "role": "worker\n"},
        {"type": "hello", "protocol": -1, "role": "worker"},
        {"type": "hello", "protocol": 1},
        {"type": "hello", "protocol": 1, "role": "worker", "name": "x" * 121},
        {"type": "put_game", "uid": bytes(15), "sha256": bytes(32)},
        {"type": "put_game", "uid": bytes(16), "sha256": bytes(33)},
        {"type": "game_ack", "uid": bytes(16), "status": "perhaps"},
        {"type": "goodbye", "code": "busy", "reason": "", "retry_after": float("nan")},
        {"type": "evaluate", "request": 1, "rows": 4097},
        {"type": "unheard_of"},
        {"protocol": 1, "role": "worker"},
        ["hello", 1, "worker"],
    ],
)
def test_fields_outside_their_limits_are_refused(wire: object) -> None:
    with pytest.raises(BadMessage):
        decode(msgpack.packb(wire))


def test_fields_of_a_newer_peer_are_ignored() -> None:
    assert decode(msgpack.packb({"type": "ping", "mood": "good"})) == Ping()


def test_fields_that_are_missing_take_their_default() -> None:
    """Foreign programs need not send what they do not use."""
    assert decode(msgpack.packb({"type": "pong"})) == Pong(version=0)
    assert decode(msgpack.packb({"type": "hello", "protocol": 1, "role": "worker"})) == Hello(1, "worker")


def test_a_secret_is_in_no_text() -> None:
    hello = Hello(2, "trainer", "host:1", secret=b"squeamish ossifrage")
    assert "squeamish" not in f"{hello} {hello!r} {[hello]}"
    assert "host:1" in repr(hello)
