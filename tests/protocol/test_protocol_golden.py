"""Bytes that earlier versions sent are understood, by our decoder and by an independent one."""

from __future__ import annotations

import msgpack
import msgspec
import numpy as np
import pytest
from message_examples import EXAMPLES, GOLDEN, golden_path
from record_strategies import example_record, example_record_1, example_record_3, example_record_4

from protocol.messages import Message, decode
from protocol.records import BadRecord, GameRecord, from_bytes, to_bytes


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: type(example).__name__)
def test_golden_messages_are_understood(example: Message) -> None:
    """If this fails, peers of the last version are not understood: raise PROTOCOL_VERSION or repair it."""
    assert decode(golden_path(example).read_bytes()) == example


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: type(example).__name__)
def test_golden_messages_are_plain_messagepack(example: Message) -> None:
    """The msgpack package sees the same names and values."""
    seen = msgpack.unpackb(golden_path(example).read_bytes(), strict_map_key=True, use_list=True)
    expected = msgspec.to_builtins(example, builtin_types=(bytes,))
    # Tuples and lists are one thing on the wire.
    expected = msgpack.unpackb(msgpack.packb(expected))
    assert seen == {name: expected[name] for name in seen}


@pytest.mark.parametrize(
    ("number", "example"), [(2, example_record()), (3, example_record_3()), (4, example_record_4())]
)
def test_the_golden_record_is_understood(number: int, example: GameRecord) -> None:
    """If this fails, stored games are no longer readable: raise FORMAT and keep reading the old one."""
    data = (GOLDEN / f"record_{number}.msgpack").read_bytes()
    record = from_bytes(data)
    assert to_bytes(record) == data == to_bytes(example)
    assert (record.run, record.format) == (example.run, number)


def test_the_golden_record_of_format_1_is_understood() -> None:
    """Games stored before format 2 stay readable; fields that they lack are unknown."""
    data = (GOLDEN / "record.msgpack").read_bytes()
    record, expected = from_bytes(data), example_record_1()
    for name in GameRecord.__dataclass_fields__:
        np.testing.assert_array_equal(getattr(record, name), getattr(expected, name))
    assert all(np.isnan(getattr(record, name)).all() for name in ("prior_kl", "prior_values", "mean_depths"))
    assert record.max_depths.tolist() == [0, 0, 0]
    assert to_bytes(from_bytes(to_bytes(record))) == to_bytes(expected)


def test_format_1_is_read_as_strictly_as_it_was() -> None:
    """A flag or a column of format 2 in format 1 is an error, and so is format 1 in a map of format 2."""
    old = (GOLDEN / "record.msgpack").read_bytes()
    new = (GOLDEN / "record_2.msgpack").read_bytes()
    flags = (b"\x09\x00\x01", b"\x05\x00\x01", b"\x21\x20\x21")
    flagged = [msgpack.packb({**msgpack.unpackb(old), "flags": column}) for column in flags]
    mixed = msgpack.packb({**msgpack.unpackb(new), "format": 1})
    longer = msgpack.packb({**msgpack.unpackb(old), "format": 2})
    empty = msgpack.packb({**msgpack.unpackb(new), "prior_kl": b""})
    newest = msgpack.unpackb((GOLDEN / "record_3.msgpack").read_bytes())
    runless = [msgpack.packb({**newest, "run": run}) for run in (b"", b"short", "text" * 4, None)]
    early = [msgpack.packb({**newest, "format": 2}), msgpack.packb({**msgpack.unpackb(new), "format": 3})]
    first = msgpack.packb({"format": 3, "run": newest["run"], **newest})
    valued = msgpack.unpackb((GOLDEN / "record_4.msgpack").read_bytes())
    columns = (b"", valued["child_values"][:-1], valued["child_values"] + b"\0", None)
    early += [msgpack.packb({**valued, "child_values": column}) for column in columns]
    early += [msgpack.packb({**valued, "format": 3}), msgpack.packb({**valued, "run": b""})]
    for data in (*flagged, mixed, longer, empty, old + b"\0", old[:-1], *runless, *early, first):
        with pytest.raises(BadRecord):
            from_bytes(data)


@pytest.mark.parametrize("version", [1, 2])
def test_the_golden_record_is_plain_messagepack(version: int) -> None:
    """Another program reads the columns with nothing but MessagePack and little-endian numbers."""
    path = GOLDEN / ("record.msgpack" if version == 1 else "record_2.msgpack")
    seen = msgpack.unpackb(path.read_bytes(), strict_map_key=True)
    record = example_record_1() if version == 1 else example_record()
    columns = [("actions", "<u2"), ("visits", "<u2"), ("root_values", "<f4"), ("versions", "<u4")]
    if version == 2:
        columns += [
            ("prior_kl", "<f2"),
            ("prior_values", "<f2"),
            ("mean_depths", "<f2"),
            ("max_depths", "u1"),
        ]
    for name, dtype in columns:
        assert np.array_equal(np.frombuffer(seen[name], dtype), getattr(record, name), equal_nan=True)
    told = (seen["format"], seen["game"], seen["outcome"], seen["reason"])
    assert told == (version, "tic_tac_toe", -1, "line")


def test_no_golden_file_is_without_its_example() -> None:
    """A message that was removed from the protocol would leave its file behind."""
    names = {golden_path(example).name for example in EXAMPLES} | {"record.msgpack", "record_2.msgpack"}
    names |= {"record_3.msgpack", "record_4.msgpack"}
    assert {path.name for path in GOLDEN.glob("*.msgpack")} == names
