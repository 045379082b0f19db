"""Bytes that earlier versions sent are understood, by our decoder and by an independent one."""

from __future__ import annotations

import msgpack
import msgspec
import numpy as np
import pytest
from message_examples import EXAMPLES, GOLDEN, golden_path
from record_strategies import example_record

from protocol.messages import Message, decode
from protocol.records import from_bytes, to_bytes


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: type(example).__name__)
def test_golden_messages_are_understood(example: Message) -> None:
    """If this fails, peers of the last version are not understood: raise PROTOCOL_VERSION or mend it."""
    assert decode(golden_path(example).read_bytes()) == example


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: type(example).__name__)
def test_golden_messages_are_plain_messagepack(example: Message) -> None:
    """The msgpack package sees the same names and values."""
    seen = msgpack.unpackb(golden_path(example).read_bytes(), strict_map_key=True, use_list=True)
    expected = msgspec.to_builtins(example, builtin_types=(bytes,))
    # Tuples and lists are one thing on the wire.
    expected = msgpack.unpackb(msgpack.packb(expected))
    assert seen == {name: expected[name] for name in seen}


def test_the_golden_record_is_understood() -> None:
    """If this fails, stored games are no longer readable: raise FORMAT and keep reading the old one."""
    data = (GOLDEN / "record.msgpack").read_bytes()
    assert to_bytes(from_bytes(data)) == data == to_bytes(example_record())


def test_the_golden_record_is_plain_messagepack() -> None:
    """Another program reads the columns with nothing but MessagePack and little-endian numbers."""
    seen = msgpack.unpackb((GOLDEN / "record.msgpack").read_bytes(), strict_map_key=True)
    record = example_record()
    for name, dtype in (("actions", "<u2"), ("visits", "<u2"), ("root_values", "<f4"), ("versions", "<u4")):
        assert np.array_equal(np.frombuffer(seen[name], dtype), getattr(record, name))
    assert (seen["format"], seen["game"], seen["outcome"], seen["reason"]) == (1, "tic_tac_toe", -1, "line")


def test_no_golden_file_is_without_its_example() -> None:
    """A message that was taken out of the protocol would leave its file behind."""
    names = {golden_path(example).name for example in EXAMPLES} | {"record.msgpack"}
    assert {path.name for path in GOLDEN.glob("*.msgpack")} == names
