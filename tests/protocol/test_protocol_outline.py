"""Messages of the wrong shape: as much is read of them as is needed to tell their sender."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.errors import Code
from protocol.outline import MAX_OUTLINE, hello_refusal, outline, request_of

pack = msgspec.msgpack.encode


def test_a_map_with_text_keys_has_an_outline() -> None:
    """Whatever its entries are."""
    entries = {"type": "evaluate", "request": 17, "rows": "two", "more": [{"a": None}]}
    assert outline(pack(entries)) == entries


@pytest.mark.parametrize(
    "header",
    [b"", b"\xc1", b"\xdd\xff\xff\xff\xff", pack([1]), pack({1: 2}), pack({"a": 1})[:-1], b"\x91" * 60_000],
    ids=["nothing", "no type", "huge array", "array", "number as key", "cut", "nested"],
)
def test_other_bytes_have_none(header: bytes) -> None:
    """They are nobody's message."""
    assert outline(header) is None


def test_a_header_beyond_all_bounds_is_not_looked_at() -> None:
    """No message of ours has so long a header."""
    assert outline(pack({"type": "x" * MAX_OUTLINE})) is None


@given(st.binary(max_size=200))
def test_no_bytes_raise(header: bytes) -> None:
    """Garbage is the usual case here."""
    assert outline(header) is None or isinstance(outline(header), dict)


@pytest.mark.parametrize(
    ("request_entry", "number"), [(17, 17), (0, 0), (-1, 0), (2**63, 0), (True, 0), ("17", 0), (None, 0)]
)
def test_the_number_of_a_request_is_read_if_it_is_one(request_entry: Any, number: int) -> None:
    """0 stands for none."""
    assert request_of({"request": request_entry}) == number


@pytest.mark.parametrize(
    ("entries", "code", "words"),
    [
        ({"protocol": 3, "role": "oracle"}, Code.PROTOCOL_TOO_NEW, "upgrade the server"),
        ({"protocol": 2**40}, Code.PROTOCOL_TOO_NEW, "upgrade the server"),
        ({"protocol": 0, "name": 5, "role": "watcher"}, Code.PROTOCOL_TOO_OLD, "upgrade the watcher"),
        (
            {"protocol": 2, "role": "oracle", "name": 5},
            Code.ROLE_NOT_ALLOWED,
            "role 'oracle' is none of worker",
        ),
        ({"protocol": 2, "role": "client", "name": 5}, Code.BAD_MESSAGE, "cannot be read: the error"),
        ({"protocol": True, "role": "client"}, Code.BAD_MESSAGE, "the error"),
        ({}, Code.BAD_MESSAGE, "the error"),
    ],
)
def test_a_hello_is_refused_for_good_with_the_first_thing_wrong(
    entries: dict[str, Any], code: Code, words: str
) -> None:
    """The version is judged before fields that another version may have changed."""
    goodbye = hello_refusal(entries, "the error")
    assert (goodbye.code, goodbye.retry_after) == (code, 0.0)
    assert words in goodbye.reason
