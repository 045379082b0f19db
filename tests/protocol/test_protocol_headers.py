"""The work of reading a header is bounded, whatever is nested in it; it is measured as memory."""

import tracemalloc
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from raw_zmtp import nested_lists, wide_lists
from scaled_examples import scaled

from protocol.messages import (
    MAX_HEADER,
    MAX_HELLO,
    BadMessage,
    Hello,
    decode,
    decode_hello,
    encode,
    outline,
    tag_of,
)

LITTLE = 16 * 1024
"""Bytes beyond the header's own that reading may take before the type of the message is known."""
FIGURES = 64 * MAX_HEADER
"""Bytes that the trainer's figures may take: 20,000 empty lists of 56 bytes and their names."""


@st.composite
def crafted(draw: st.DrawFn, size: int) -> bytes:
    """Draw a map of `size` bytes of nested containers: lists, maps, and arrays in long form, of any depth."""
    key = draw(st.sampled_from(["type", "role", "protocol", "request", "name", "figures", "acks", "other"]))
    kind = draw(st.sampled_from(["hello", "trainer_status", "relay_ack", "evaluate"]))
    head = b"\x82" + msgspec.msgpack.encode("type") + msgspec.msgpack.encode(kind)
    room = size - len(head) - 32
    value = draw(
        st.one_of(
            st.just(nested_lists(room, key)),
            st.builds(lambda depth: wide_lists(room, depth, key), st.integers(1, 600)),
            st.builds(lambda each: wide_maps(room, each, key), st.integers(0, 15)),
        )
    )
    if draw(st.booleans()):
        return head + value[1:]  # without its map's first byte, it is the second entry of this map
    return head + b"\xa7figures" + value


def wide_maps(size: int, each: int, key: str) -> bytes:
    """Return a map of many maps with `each` entries."""
    item = bytes([0x80 + each]) + b"".join(b"\xa1" + bytes([97 + i]) + b"\x80" for i in range(each))
    head = b"\x81" + msgspec.msgpack.encode(key) + b"\xdf"
    count = (size - len(head) - 4) // (len(item) + 6)
    entries = b"".join(b"\xa5" + f"{i:05d}".encode() + item for i in range(count))
    return head + count.to_bytes(4, "big") + entries


def taken_by(read: Callable[[bytes], object], header: bytes) -> int:
    """Return the peak of the bytes that reading took."""
    tracemalloc.start()
    try:
        read(header)
        return tracemalloc.get_traced_memory()[1]
    except BadMessage:
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@settings(max_examples=scaled(60))
@given(crafted(MAX_HEADER))
def test_the_type_and_the_outline_of_a_header_are_read_without_building_it(header: bytes) -> None:
    assert len(header) <= MAX_HEADER
    assert taken_by(tag_of, header) < len(header) + LITTLE
    assert taken_by(outline, header) < len(header) + LITTLE


@settings(max_examples=scaled(60))
@given(crafted(MAX_HELLO))
def test_what_is_read_as_hello_is_not_built_either(header: bytes) -> None:
    assert taken_by(decode_hello, header) < LITTLE


@settings(max_examples=scaled(60))
@given(crafted(MAX_HEADER))
def test_no_header_costs_more_than_the_trainers_figures(header: bytes) -> None:
    assert taken_by(decode, header) < FIGURES


def test_figures_are_no_deeper_than_lists_and_maps_of_numbers() -> None:
    def status(figure: object) -> bytes:
        return msgspec.msgpack.encode({"type": "trainer_status", "figures": {"a": figure}})

    for figure in (1, 2.5, "text", None, True, [1, None, "x"], {"b": 1, "c": None}):
        assert decode(status(figure)).figures == {"a": figure}  # type: ignore[union-attr]
    for figure in ([[1]], {"b": {"c": 1}}, {"b": [1]}):
        with pytest.raises(BadMessage):
            decode(status(figure))


def test_the_longest_hello_fits_before_the_session() -> None:
    """A letter takes at most four bytes in UTF-8."""
    hello = Hello(2**16, "trainer", "\U0001f600" * 120, "\U0001f600" * 120, 2**40)
    assert decode_hello(encode(hello)) == hello
    assert len(encode(hello)) <= MAX_HELLO // 2
