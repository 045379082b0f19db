"""Reads a header's type and a few plain entries, before it is decoded or when it cannot be.

A header is decoded only once it is known that its sender may send this type. Until then the work is
bounded by construction: other entries are skipped, not built (`msgspec.Raw`), however deep or wide they
are. A peer of another protocol version may send fields that we do not know. Then the outline is all that
can be read of its HELLO; the version must be checked before anything else.
"""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import msgspec

from protocol.errors import Code
from protocol.messages import MAX_HEADER, ROLES, Goodbye, Hello
from protocol.sessions import version_refusal

MAX_REQUEST = 2**63 - 1
LONGEST_WORD = 200
"""Most bytes of an entry that is read as text; every type and role is shorter."""

HELLO: str = Hello.__struct_config__.tag  # type: ignore[assignment]

_ABSENT = msgspec.Raw(b"\xc0")
_T = TypeVar("_T", int, str)


class Outline(NamedTuple):
    """The entries of a header that are read."""

    type: str = ""
    """Empty if missing or not text; the same holds for `role`."""
    request: int = 0
    """The request's number; 0 if there is none or it cannot be read."""
    protocol: int | None = None
    role: str = ""


class _Entries(msgspec.Struct):
    type: msgspec.Raw = _ABSENT
    request: msgspec.Raw = _ABSENT
    protocol: msgspec.Raw = _ABSENT
    role: msgspec.Raw = _ABSENT


class _Tag(msgspec.Struct):
    type: str


_tag_decoder = msgspec.msgpack.Decoder(_Tag)
_decoder = msgspec.msgpack.Decoder(_Entries)


def tag_of(header: bytes | memoryview) -> str | None:
    """Return the entry `type`, "" if it is missing or not text; None if the bytes are not a map with text
    keys."""
    try:
        return _tag_decoder.decode(header).type
    except (msgspec.MsgspecError, RecursionError, ValueError):
        # The quick decoder wants a text there; this one takes anything.
        return None if (seen := outline(header)) is None else seen.type


def outline(header: bytes | memoryview) -> Outline | None:
    """Return what can be read of a map with text keys; None for other bytes and for more than
    `MAX_HEADER`."""
    if len(header) > MAX_HEADER:
        return None
    try:
        entries = _decoder.decode(header)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return None
    request = _scalar(entries.request, int)
    return Outline(
        _scalar(entries.type, str) or "",
        request if request is not None and 0 <= request <= MAX_REQUEST else 0,
        _scalar(entries.protocol, int),
        _scalar(entries.role, str) or "",
    )


def hello_refusal(seen: Outline, error: str) -> Goodbye:
    """Return the final GOODBYE for a malformed HELLO: it checks the version, then the role, then gives
    `error`."""
    # Only to choose the sentence: an unknown role counts as a client's.
    known = seen.role if seen.role in ROLES else "client"
    if seen.protocol is not None and (refusal := version_refusal(seen.protocol, known)) is not None:
        return refusal
    if seen.role not in ("", known):
        return Goodbye(Code.ROLE_NOT_ALLOWED, f"role {seen.role[:40]!r} is none of {', '.join(ROLES)}")
    return Goodbye(Code.BAD_MESSAGE, f"this hello cannot be read: {error}"[:2000])


def _scalar(raw: msgspec.Raw, kind: type[_T]) -> _T | None:
    """Return one number or text; None for anything else, decided at its first byte."""
    # Before it is decoded: an entry may be as long as the header.
    if len(bytes(raw)) > LONGEST_WORD:
        return None
    try:
        return msgspec.msgpack.decode(raw, type=kind)
    except (msgspec.MsgspecError, ValueError):
        return None
