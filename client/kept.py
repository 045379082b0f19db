"""Games that the trainer refused because of their settings, run or weights, and when they may fit again.

Settings may be changed back, and a restored backup of the weights may catch up. Such games are valid work, so
none of them is ever deleted. They count as part of the spool, so a worker whose games are always refused
comes to a halt.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import msgspec

from protocol.errors import Code
from protocol.messages import Welcome
from protocol.records import BadRecord, from_bytes

CODES = frozenset({Code.WRONG_RUN.value, Code.WRONG_SETTINGS.value, Code.UNKNOWN_VERSION.value})
"""Refusals after which a game is kept."""
_MARK = "refused under "


@dataclass(frozen=True)
class Terms:
    """The terms under which a server accepts games, as far as its WELCOME tells."""

    settings: str
    """Fingerprint of run and settings."""
    version: int
    """Version of the current weights."""

    @classmethod
    def of(cls, welcome: Welcome) -> Terms:
        asked = [welcome.run_id, welcome.game, welcome.self_play]
        text = msgspec.msgpack.encode(asked, order="deterministic")
        version = welcome.weights.version if welcome.weights is not None else 0
        return cls(hashlib.sha256(text).hexdigest()[:16], version)


def code_of(reason: str) -> str:
    """Return the code in a GAME_ACK's reason."""
    return reason.partition(":")[0]


def note(reason: str, terms: Terms) -> str:
    """Return the note that is stored beside a kept game: why it was refused, and under which settings."""
    return f"{reason}\n{_MARK}{terms.settings}\n"


def fits(text: str, path: Path, terms: Terms) -> bool:
    """Return whether the game in `path` may be accepted now. `text`: what `note` returned. Raises OSError.

    A game of unknown weights may be accepted once the server has reached its version. Other games are offered
    again once anything but the weights has changed, and the trainer checks them.
    """
    reason, _, rest = text.partition("\n")
    if rest.strip() != f"{_MARK}{terms.settings}":
        return True
    if code_of(reason) != Code.UNKNOWN_VERSION:
        return False
    try:
        return int(from_bytes(path.read_bytes()).versions.max()) <= terms.version
    except BadRecord:
        return True  # it is damaged: it is set aside when it is read for sending
