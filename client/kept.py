"""Games that the trainer refused for what they were played under, and when that fits again.

Settings may be changed back, a backup of the weights may catch up. Such games are honest work: none of them
is ever deleted. They count as part of the spool, so that a worker whose games nobody takes comes to a halt.
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
    """What a server takes games under, as far as its WELCOME tells."""

    settings: str
    """Fingerprint of run and settings."""
    version: int
    """Of the current weights."""

    @classmethod
    def of(cls, welcome: Welcome) -> Terms:
        asked = [welcome.run_id, welcome.game, welcome.self_play]
        text = msgspec.msgpack.encode(asked, order="deterministic")
        version = welcome.weights.version if welcome.weights is not None else 0
        return cls(hashlib.sha256(text).hexdigest()[:16], version)


def code_of(reason: str) -> str:
    """The code in a GAME_ACK's reason."""
    return reason.partition(":")[0]


def note(reason: str, terms: Terms) -> str:
    """What is written beside a kept game: why it was refused, and under which settings."""
    return f"{reason}\n{_MARK}{terms.settings}\n"


def fits(text: str, path: Path, terms: Terms) -> bool:
    """Whether the game in `path` may be taken now. `text`: as from `note`. Raises OSError.

    One of unknown weights may be once the server has come to its version, others once anything but the
    weights has changed: then they are offered, and the trainer looks.
    """
    reason, _, rest = text.partition("\n")
    if rest.strip() != f"{_MARK}{terms.settings}":
        return True
    if code_of(reason) != Code.UNKNOWN_VERSION:
        return False
    try:
        return int(from_bytes(path.read_bytes()).versions.max()) <= terms.version
    except BadRecord:
        return True  # it has rotted: whoever reads it in order to send it sets it aside
