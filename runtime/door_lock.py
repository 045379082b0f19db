"""The lock of a door: peers from the network must show a key that is allowed. Beside it, what that costs."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from protocol.curve import Handshake, OwnerOf
from protocol.curve_incoming import CurveIncoming
from protocol.keys import KeyPair
from protocol.zmtp import Incoming, Limits

LOCKED_PRICE = 6.0
"""Messages without work that a connection with a handshake of CURVE counts for (without one: 4): its six
multiplications take 0.2 ms."""


@dataclass(frozen=True)
class DoorLock:
    """Of one server, for all its doors."""

    keys: KeyPair
    """The server's."""
    owner_of: OwnerOf = field(repr=False)
    price: float = LOCKED_PRICE

    def incoming(self, limits: Limits) -> CurveIncoming:
        """For a new connection."""
        return CurveIncoming(limits, Handshake(self.keys, self.owner_of, os.urandom))

    def is_revoked(self, incoming: Incoming | CurveIncoming) -> bool:
        """Whether it got in by a key that is not allowed any more, or is another's or of another role now."""
        return isinstance(incoming, CurveIncoming) and incoming.is_revoked(self.owner_of)
