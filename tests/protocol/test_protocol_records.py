"""A record is read back from its bytes as it was, and nothing else is accepted as a record."""

from contextlib import suppress
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from record_strategies import example_record, records

from protocol.errors import Code
from protocol.messages import MAX_RECORD
from protocol.records import UNKNOWN, BadRecord, GameRecord, from_bytes, sha256, to_bytes


def same(one: GameRecord, other: GameRecord) -> bool:
    return all(
        np.testing.assert_array_equal(getattr(one, field.name), getattr(other, field.name)) is None
        for field in fields(GameRecord)
    )


@given(records())
def test_a_record_survives_its_bytes(record: GameRecord) -> None:
    data = to_bytes(record)
    back = from_bytes(data)
    assert same(record, back)
    assert to_bytes(back) == data


@given(records(), st.data())
def test_mutated_bytes_are_refused_or_canonical(record: GameRecord, data: st.DataObject) -> None:
    original = to_bytes(record)
    position = data.draw(st.integers(0, len(original) - 1))
    end = data.draw(st.integers(position, min(len(original), position + 8)))
    mutated = original[:position] + data.draw(st.binary(max_size=8)) + original[end:]
    with suppress(BadRecord):
        assert to_bytes(from_bytes(mutated)) == mutated


def test_columns_come_back_read_only_and_aligned() -> None:
    """Nobody can change a record that was received."""
    record = from_bytes(memoryview(to_bytes(example_record())))
    for column in (record.actions, record.visits, record.root_values, record.versions):
        assert not column.flags.writeable
        assert column.flags.aligned


@pytest.mark.parametrize(
    ("change", "reason", "code"),
    [
        ({"uid": b"short"}, "uid", Code.BAD_RECORD),
        ({"outcome": 2}, "outcome", Code.BAD_RECORD),
        ({"seed": -1}, "seed", Code.BAD_RECORD),
        ({"simulations": 0}, "simulations", Code.BAD_RECORD),
        ({"seconds": float("nan")}, "seconds", Code.BAD_RECORD),
        ({"source": "x" * 121}, "source", Code.BAD_RECORD),
        ({"start": "x" * 4097}, "start", Code.BAD_RECORD),
        ({"actions": np.zeros(3, np.int64)}, "actions is int64", Code.BAD_RECORD),
        ({"actions": np.zeros(0, np.uint16)}, "no plies", Code.BAD_RECORD),
        ({"max_plies": 2}, "3 plies, the cap is 2", Code.TOO_LONG),
        ({"versions": np.zeros(2, np.uint32)}, "versions has 2 entries, expected 3", Code.BAD_RECORD),
        ({"visited": np.array([2, 1, 4], np.uint16)}, "6 entries, expected 7", Code.BAD_RECORD),
        ({"flags": np.array([1, 0, 2], np.uint8)}, "unknown flag", Code.BAD_RECORD),
        ({"flags": np.array([1, 0, 16], np.uint8)}, "unknown flag", Code.BAD_RECORD),
        ({"prior_kl": np.array([0, 0, 20.5], np.float16)}, "prior_kl has an entry", Code.BAD_VALUES),
        ({"prior_kl": np.array([0, 0, -1], np.float16)}, "prior_kl has an entry", Code.BAD_VALUES),
        ({"prior_values": np.array([0, 0, -1.5], np.float16)}, "prior_values has an entry", Code.BAD_VALUES),
        ({"mean_depths": np.array([0, 0, np.inf], np.float16)}, "mean_depths has an entry", Code.BAD_VALUES),
        ({"mean_depths": np.array([0, 0, 0xFE00], np.uint16).view(np.float16)}, "NaN", Code.BAD_VALUES),
        ({"max_depths": np.zeros(2, np.uint8)}, "max_depths has 2 entries", Code.BAD_RECORD),
        ({"root_values": np.array([0, 0, np.nan], np.float32)}, "root value", Code.BAD_VALUES),
        ({"root_values": np.array([0, 0, 1.5], np.float32)}, "root value", Code.BAD_VALUES),
        ({"visits": np.array([3, 0, 8, 1, 2, 5], np.uint16)}, "0 visits", Code.BAD_VISITS),
        ({"visit_actions": np.array([4, 0, 0, 2, 6, 8], np.uint16)}, "ascend", Code.BAD_VISITS),
        ({"visit_actions": np.array([0, 4, 0, 2, 8, 8], np.uint16)}, "ascend", Code.BAD_VISITS),
        ({"visited": np.array([0, 3, 3], np.uint16)}, "without visits", Code.BAD_VISITS),
    ],
)
def test_a_wrong_record_is_not_written(change: dict[str, object], reason: str, code: Code) -> None:
    with pytest.raises(BadRecord, match=reason.replace("[", r"\[")) as caught:
        to_bytes(replace(example_record(), **change))
    assert caught.value.code is code


def test_too_many_bytes_are_refused_unread() -> None:
    with pytest.raises(BadRecord, match="at most") as caught:
        from_bytes(bytes(MAX_RECORD + 1))
    assert caught.value.code is Code.TOO_LONG


@pytest.mark.parametrize(("plies", "width"), [(1_700, 600), (65_535, 10)])
def test_a_record_of_the_largest_size_comes_back(plies: int, width: int) -> None:
    record = replace(
        example_record(),
        start="x" * 4096,
        max_plies=plies,
        actions=np.zeros(plies, np.uint16),
        visited=np.full(plies, width, np.uint16),
        visit_actions=np.tile(np.arange(0x10000 - width, 0x10000).astype(np.uint16), plies),
        visits=np.ones(plies * width, np.uint16),
        root_values=np.zeros(plies, np.float32),
        flags=np.zeros(plies, np.uint8),
        versions=np.zeros(plies, np.uint32),
        **dict.fromkeys(UNKNOWN, np.zeros(0)),
    )
    assert MAX_RECORD * 0.9 < len(to_bytes(record)) <= MAX_RECORD
    assert same(from_bytes(to_bytes(record)), record)


def test_a_search_that_found_nothing_differs_from_nothing() -> None:
    """The flag tells what the visits were compared with."""
    one = example_record()
    nothing = replace(
        one, visited=np.array([0, 3, 3], np.uint16), flags=np.array([8, 0, 1], np.uint8),
        visit_actions=np.array([0, 4, 5, 2, 6, 8], np.uint16),
    )  # fmt: skip
    with pytest.raises(BadRecord, match="differ from the network"):
        to_bytes(nothing)


def test_the_hash_is_of_the_bytes() -> None:
    assert sha256(b"abc").hex() == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
