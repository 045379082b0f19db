"""Bytes that earlier versions sent are understood, by our decoder and by an independent one."""

import msgpack
import numpy as np
import pytest
from message_examples import EXAMPLES, GOLDEN, golden_path
from record_strategies import example_record

from protocol.messages import Message, decode
from protocol.records import BadRecord, from_bytes, to_bytes


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: type(example).__name__)
def test_golden_messages_are_understood(example: Message) -> None:
    """If this fails, peers of the last version are not understood: raise PROTOCOL_VERSION or repair it."""
    assert decode(golden_path(example).read_bytes()) == example


def test_the_golden_record_is_understood() -> None:
    """If this fails, stored games are no longer readable: raise FORMAT, and stores say so by name."""
    data = (GOLDEN / "record.msgpack").read_bytes()
    record = from_bytes(data)
    assert to_bytes(record) == data == to_bytes(example_record())
    assert record.run == example_record().run


def test_a_record_is_read_strictly() -> None:
    """There is only one way to write it: other keys, another order and empty columns are refused."""
    data = (GOLDEN / "record.msgpack").read_bytes()
    seen = msgpack.unpackb(data)
    bad = [{**seen, "run": run} for run in (b"short", "text" * 4, None)]
    bad += [{**seen, "prior_kl": b""}, {**seen, "flags": b"\x41\x00\x01"}, {**seen, "more": 1}]
    bad += [{"run": seen["run"], **seen}, {name: seen[name] for name in seen if name != "run"}]
    for one in (*map(msgpack.packb, bad), data + b"\0", data[:-1]):
        with pytest.raises(BadRecord):
            from_bytes(one)


@pytest.mark.parametrize("number", [1, 4, 6])
def test_another_format_is_refused_by_name(number: int) -> None:
    seen = msgpack.unpackb((GOLDEN / "record.msgpack").read_bytes())
    with pytest.raises(BadRecord, match=f"a record of format {number}; this version reads format 5 only"):
        from_bytes(msgpack.packb({**seen, "format": number}))


def test_the_golden_record_is_plain_messagepack() -> None:
    """Another program reads the columns with nothing but MessagePack and little-endian numbers."""
    seen = msgpack.unpackb((GOLDEN / "record.msgpack").read_bytes(), strict_map_key=True)
    columns = (
        *(("actions", "<u2"), ("visits", "<u2"), ("root_values", "<f4"), ("versions", "<u4")),
        *(("prior_kl", "<f2"), ("prior_values", "<f2"), ("mean_depths", "<f2"), ("max_depths", "u1")),
    )
    for name, dtype in columns:
        found = np.frombuffer(seen[name], dtype)
        assert np.array_equal(found, getattr(example_record(), name), equal_nan=True)
    told = (seen["format"], seen["game"], seen["outcome"], seen["reason"])
    assert told == (5, "tic_tac_toe", -1, "line")


def test_no_golden_file_is_without_its_example() -> None:
    """A message that was removed from the protocol would leave its file behind."""
    names = {golden_path(example).name for example in EXAMPLES} | {"record.msgpack"}
    assert {path.name for path in GOLDEN.glob("*.msgpack")} == names
