"""What can be read of a message of the wrong shape, so that its sender is told instead of left to guess.

Only used once the strict reading has failed: a peer of another protocol version may send fields that we
do not know, and the version must be judged before anything else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeGuard

import msgspec

from protocol.errors import Code
from protocol.messages import ROLES, Goodbye, Hello
from protocol.sessions import version_refusal

MAX_OUTLINE = 64 * 1024
"""Bytes of a header that are looked at again; no message of ours has a longer one."""
MAX_REQUEST = 2**63 - 1

HELLO: str = Hello.__struct_config__.tag  # type: ignore[assignment]

_decoder = msgspec.msgpack.Decoder(dict[str, Any])


def outline(header: bytes | memoryview) -> dict[str, Any] | None:
    """The entries of a MessagePack map with text keys; None for any other bytes."""
    if len(header) > MAX_OUTLINE:
        return None
    try:
        entries: dict[str, Any] = _decoder.decode(header)
        return entries
    except (msgspec.MsgspecError, RecursionError, ValueError, TypeError, OverflowError):
        return None


def request_of(entries: Mapping[str, Any]) -> int:
    """The request's number, 0 if there is none that can be read."""
    request = entries.get("request", 0)
    return request if _is_int(request) and 0 <= request <= MAX_REQUEST else 0


def hello_refusal(entries: Mapping[str, Any], error: str) -> Goodbye:
    """The final GOODBYE for a HELLO of the wrong shape: version first, then role, then what `error` names."""
    protocol, role = entries.get("protocol"), entries.get("role")
    known = role if isinstance(role, str) and role in ROLES else "client"
    if _is_int(protocol) and (refusal := version_refusal(protocol, known)) is not None:
        return refusal
    if isinstance(role, str) and role != known:
        return Goodbye(Code.ROLE_NOT_ALLOWED, f"role {role[:40]!r} is none of {', '.join(ROLES)}")
    return Goodbye(Code.BAD_MESSAGE, f"this hello cannot be read: {error}"[:2000])


def _is_int(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)
