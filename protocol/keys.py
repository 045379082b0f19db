"""Keys: Curve25519 pairs, their owners, and the role each owner may take.

The owner of a key decides which roles its sessions may take. HELLO names a role, and `role_refusal` compares
it with the role of the key that the peer has proved in the handshake. A secret is never shown, not even by
`repr`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from protocol.errors import Code
from protocol.messages import Goodbye

KEY_BYTES = 32

KeyRole = Literal["client", "trainer", "watcher"]
ROLES_OF_KEY: dict[KeyRole, tuple[str, ...]] = {
    "client": ("client", "watcher"),
    "trainer": ("trainer", "watcher"),
    "watcher": ("watcher",),
}
"""Allowed roles in HELLO, by the role of the key. `worker` is not among them: azserver's workers use ipc."""


@dataclass(frozen=True)
class KeyPair:
    """A long-term key pair, 32 bytes each."""

    public: bytes
    secret: bytes = field(repr=False)


@dataclass(frozen=True)
class DialKeys:
    """What a peer needs to dial a server that uses keys: the server's public key and a key pair of its
    own."""

    server: bytes
    own: KeyPair


@dataclass(frozen=True)
class KeyOwner:
    """The owner of a key, as given to `azserver allow ROLE NAME KEY`."""

    name: str
    role: KeyRole


OwnerOf = Callable[[bytes], KeyOwner | None]
"""Returns the owner of a public key, or None if the key is not allowed. Raises NotNow if this cannot be known
at the moment."""


class NotNow(Exception):
    """Nobody new can be admitted at the moment. The connection is closed without an ERROR, so the peer tries
    again."""


def role_refusal(owner: KeyOwner | None, role: str) -> Goodbye | None:
    """Return the GOODBYE for a HELLO in a role that the peer's key does not have. `owner` is None where no
    key is needed."""
    if owner is None or role in ROLES_OF_KEY[owner.role]:
        return None
    reason = (
        f"the key of {owner.name!r} is a {owner.role}'s and may not join as {role}: on the server's machine, "
        f"`azserver allow {role} NAME KEY` takes another key for that"
    )
    # No key gives this role: advice about keys would mislead.
    if role == "worker":
        reason = "only azserver's own processes join as worker; others join as client"
    return Goodbye(Code.ROLE_NOT_ALLOWED, reason)
