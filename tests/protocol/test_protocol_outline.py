"""Messages of the wrong shape: only what is needed to answer their sender is read."""

from typing import Any

import msgspec
import pytest

from protocol.errors import Code
from protocol.messages import MAX_HEADER, PROTOCOL_VERSION, Outline, outline, tag_of
from protocol.sessions import hello_refusal

pack = msgspec.msgpack.encode


def test_a_map_with_text_keys_has_an_outline() -> None:
    entries = {"type": "evaluate", "request": 17, "rows": "two", "more": [{"a": None}]}
    assert outline(pack(entries)) == Outline("evaluate", 17)
    assert outline(pack({"role": "client", "protocol": 7})) == Outline("", 0, 7, "client")
    assert outline(pack({"type": 5, "role": ["client"], "protocol": "7"})) == Outline()


@pytest.mark.parametrize(
    "header",
    [b"", b"\xc1", b"\xdd\xff\xff\xff\xff", pack([1]), pack({1: 2}), pack({"a": 1})[:-1], b"\x91" * 60_000],
    ids=["nothing", "no type", "huge array", "array", "number as key", "cut", "nested"],
)
def test_other_bytes_have_none(header: bytes) -> None:
    assert outline(header) is None
    assert tag_of(header) is None


def test_a_header_beyond_all_bounds_is_not_looked_at() -> None:
    """No message of ours has so long a header."""
    assert outline(pack({"type": "x" * MAX_HEADER})) is None


@pytest.mark.parametrize(
    ("entries", "tag"),
    [
        ({"a": 1, "type": "ping"}, "ping"),
        ({}, ""),
        ({"type": 3}, ""),
        ({"type": None}, ""),
        ({"typ": "x"}, ""),
    ],
)
def test_the_type_is_read_wherever_it_stands(entries: dict[str, Any], tag: str) -> None:
    assert tag_of(pack(entries)) == tag


@pytest.mark.parametrize(
    ("request_entry", "number"), [(17, 17), (0, 0), (-1, 0), (2**63, 0), (True, 0), ("17", 0), (None, 0)]
)
def test_the_number_of_a_request_is_read_if_it_is_one(request_entry: Any, number: int) -> None:
    """0 means that there is none."""
    seen = outline(pack({"request": request_entry}))
    assert seen is not None
    assert seen.request == number


@pytest.mark.parametrize(
    ("entries", "code", "words"),
    [
        ({"protocol": PROTOCOL_VERSION + 1, "role": "oracle"}, Code.PROTOCOL_TOO_NEW, "upgrade the server"),
        ({"protocol": 2**40}, Code.PROTOCOL_TOO_NEW, "upgrade the server"),
        ({"protocol": 0, "name": 5, "role": "watcher"}, Code.PROTOCOL_TOO_OLD, "upgrade the watcher"),
        (
            {"protocol": PROTOCOL_VERSION, "role": "oracle", "name": 5},
            Code.ROLE_NOT_ALLOWED,
            "role 'oracle' is none of worker",
        ),
        (
            {"protocol": PROTOCOL_VERSION, "role": "client", "name": 5},
            Code.BAD_MESSAGE,
            "cannot be read: the error",
        ),
        ({"protocol": True, "role": "client"}, Code.BAD_MESSAGE, "the error"),
        ({}, Code.BAD_MESSAGE, "the error"),
    ],
)
def test_a_hello_is_refused_for_good_with_the_first_thing_wrong(
    entries: dict[str, Any], code: Code, words: str
) -> None:
    """The version is checked before fields that another version may have changed."""
    seen = outline(pack(entries))
    assert seen is not None
    goodbye = hello_refusal(seen, "the error")
    assert (goodbye.code, goodbye.retry_after) == (code, 0.0)
    assert words in goodbye.reason
