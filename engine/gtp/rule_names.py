"""Rules as KataGo's GTP extensions write them: names, or JSON objects. Pure.

https://github.com/lightvector/KataGo/blob/master/docs/GTP_Extensions.md
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from engine.core.orders import shown
from engine.gtp.protocol import GtpError
from games.go import GoRules

NAMED: Mapping[str, Mapping[str, Any]] = {
    "tromp-taylor": {"ko": "POSITIONAL", "suicide": True},
    "new-zealand": {"ko": "SITUATIONAL", "suicide": True},
}
"""Supported rules by KataGo's names."""
FIXED: Mapping[str, Any] = {
    "scoring": "AREA",
    "tax": "NONE",
    "hasButton": False,
    "whiteHandicapBonus": "0",
    "friendlyPassOk": False,
}
"""Rules that are the same in all supported rule sets."""
LONGEST = 1000
"""Most characters in a JSON object."""


def as_json(rules: GoRules) -> str:
    """The answer to kata-get-rules."""
    own = {"ko": rules.superko.upper(), "suicide": rules.suicide}
    return json.dumps(own | dict(FIXED), separators=(",", ":"))


def changes_in(text: str) -> dict[str, Any]:
    """The fields of GoRules that kata-set-rules changes. Raises GtpError for unsupported rules."""
    name = text.lower()
    wanted = NAMED.get(name) if not text.startswith("{") else _object(text)
    if wanted is None:
        raise GtpError(f"unknown rules {shown(text)}: there are {', '.join(NAMED)}, or a JSON object")
    changes: dict[str, Any] = {}
    for key, value in wanted.items():
        changes |= change_of(key, value)
    return changes


def change_of(key: str, value: Any) -> dict[str, Any]:
    """The fields that one rule changes. Raises GtpError if it is not supported."""
    if key == "ko" and str(value).upper() in ("POSITIONAL", "SITUATIONAL"):
        return {"superko": str(value).lower()}
    if key in ("suicide", "multiStoneSuicideLegal") and isinstance(value, bool):
        return {"suicide": value}
    if key in FIXED and str(value).lower() == str(FIXED[key]).lower():
        return {}
    known = ", ".join(f"{name} {_text(one)}" for name, one in FIXED.items())
    raise GtpError(
        f"the rule {shown(key)} cannot be {shown(str(value))}: ko is POSITIONAL or SITUATIONAL, suicide true "
        f"or false; {known}"
    )


def value_of(text: str) -> Any:
    """The value of a rule in kata-set-rule."""
    return {"true": True, "false": False}.get(text.lower(), text)


def _object(text: str) -> Mapping[str, Any]:
    try:
        found = json.loads(text) if len(text) <= LONGEST else None
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise GtpError("syntax error: rules are a name or a JSON object")
    return found


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
