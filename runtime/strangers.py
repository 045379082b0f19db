"""Connections without a session, or of one kind: how many there may be, and for how long. Pure.

When there are too many, the oldest one from the address with the most of them must go, so that one host
cannot keep the others out.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

P = TypeVar("P", bound=Hashable)


class Strangers(Generic[P]):
    """The connections without a session, by address. A connection is known by any hashable value."""

    def __init__(self, limit: int, patience: float) -> None:
        """`limit`: for all addresses together. `patience`: seconds that one may go without a session."""
        self._limit = limit
        self._patience = patience
        self._since: OrderedDict[P, float] = OrderedDict()
        self._address: dict[P, str] = {}
        self._of: dict[str, OrderedDict[P, None]] = {}

    def __len__(self) -> int:
        return len(self._since)

    def add(self, peer: P, address: str, now: float) -> P | None:
        """Add a connection that has no session (any more). Returns the connection that must go for it, if
        any."""
        self.remove(peer)
        self._since[peer] = now
        self._address[peer] = address
        self._of.setdefault(address, OrderedDict())[peer] = None
        return self.next_to_go() if len(self._since) > self._limit else None

    def next_to_go(self) -> P | None:
        """Return the oldest one from the address with the most of them."""
        crowd = max(self._of.values(), key=len, default=None)
        return None if crowd is None else next(iter(crowd))

    def remove(self, peer: P) -> None:
        """Remove a connection that has a session, or is gone."""
        if self._since.pop(peer, None) is None:
            return
        address = self._address.pop(peer)
        crowd = self._of[address]
        del crowd[peer]
        if not crowd:
            del self._of[address]

    def expire(self, now: float) -> list[P]:
        """Return those that have been without a session for too long."""
        late = []
        for peer, since in self._since.items():
            if now - since < self._patience:
                break
            late.append(peer)
        return late
