"""The lock of a door: peers from the network must prove an allowed key. Also the cost of that."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from protocol.curve import CurveIncoming, Handshake, OwnerOf
from protocol.keys import KeyPair
from protocol.zmtp import Incoming, Limits

LOCKED_PRICE = 6.0
"""Messages without work that a connection with a CURVE handshake counts as (without one: 4): its six
multiplications take 0.2 ms."""


@dataclass(frozen=True)
class DoorLock:
    """The lock of one server, for all its doors."""

    keys: KeyPair
    """The server's key pair."""
    owner_of: OwnerOf = field(repr=False)
    price: float = LOCKED_PRICE

    def incoming(self, limits: Limits) -> CurveIncoming:
        """Return the decoder for a new connection."""
        return CurveIncoming(limits, Handshake(self.keys, self.owner_of, os.urandom))

    def is_revoked(self, incoming: Incoming | CurveIncoming) -> bool:
        """Return whether the key it joined with is no longer allowed, or now has another owner or role."""
        return isinstance(incoming, CurveIncoming) and incoming.is_revoked(self.owner_of)
