"""What is read of a header before it is decoded, or of one that cannot be: its type and a few plain entries.

A header is decoded only once it is known that its sender may send this type. Until then the work is bounded
by construction: entries are skipped, not built (`msgspec.Raw`), however deep or wide what is in them is.
A peer of another protocol version may send fields that we do not know, so that the outline is all that can
be read of its HELLO; the version must be judged before anything else.
"""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import msgspec

from protocol.errors import Code
from protocol.messages import MAX_HEADER, ROLES, Goodbye, Hello
from protocol.sessions import version_refusal

MAX_REQUEST = 2**63 - 1
LONGEST_WORD = 200
"""Bytes of an entry that is read as text; no type and no role is longer."""

HELLO: str = Hello.__struct_config__.tag  # type: ignore[assignment]

_ABSENT = msgspec.Raw(b"\xc0")
_T = TypeVar("_T", int, str)


class Outline(NamedTuple):
    """The entries of a header that are looked at."""

    type: str = ""
    """"" where there is none that is text; likewise `role`."""
    request: int = 0
    """The request's number, 0 if there is none that can be read."""
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
    """The entry `type`, "" if it is missing or no text; None for other bytes than a map with text keys."""
    try:
        return _tag_decoder.decode(header).type
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return None if (seen := outline(header)) is None else seen.type


def outline(header: bytes | memoryview) -> Outline | None:
    """What can be read of a map with text keys; None for other bytes and for more than `MAX_HEADER`."""
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
    """The final GOODBYE for a HELLO of the wrong shape: version first, then role, then what `error` names."""
    known = seen.role if seen.role in ROLES else "client"
    if seen.protocol is not None and (refusal := version_refusal(seen.protocol, known)) is not None:
        return refusal
    if seen.role not in ("", known):
        return Goodbye(Code.ROLE_NOT_ALLOWED, f"role {seen.role[:40]!r} is none of {', '.join(ROLES)}")
    return Goodbye(Code.BAD_MESSAGE, f"this hello cannot be read: {error}"[:2000])


def _scalar(raw: msgspec.Raw, kind: type[_T]) -> _T | None:
    """One number or text; anything else is refused at its first byte."""
    if len(bytes(raw)) > LONGEST_WORD:
        return None
    try:
        return msgspec.msgpack.decode(raw, type=kind)
    except (msgspec.MsgspecError, ValueError):
        return None
