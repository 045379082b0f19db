"""Bytes held for peers that do not finish what they send or do not read what they get. Pure.

The total is bounded: beyond the budget, the peer that has made no progress for the longest time must go. An
honest peer's message takes milliseconds to arrive, an attacker's may never end.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass


@dataclass
class _Holding:
    size: int
    since: float
    """When the peer last made progress."""


class Holdings:
    """How much is held for which peer, least recent progress first."""

    def __init__(self, budget: int, patience: float) -> None:
        """`budget`: bytes for all together. `patience`: seconds that a peer may go without progress."""
        self.total = 0
        self._budget = budget
        self._patience = patience
        self._by_peer: OrderedDict[bytes, _Holding] = OrderedDict()

    def update(self, peer: bytes, size: int, now: float, *, progress: bool) -> list[bytes]:
        """Note that `size` bytes are held for `peer` now. Returns the peers that must go, perhaps including
        this one."""
        if not size:
            self.forget(peer)
            return []
        holding = self._by_peer.get(peer)
        if holding is None:
            holding = self._by_peer[peer] = _Holding(0, now)
        elif progress:
            holding.since = now
            self._by_peer.move_to_end(peer)
        self.total += size - holding.size
        holding.size = size
        return self._beyond()

    def forget(self, peer: bytes) -> None:
        """Note that nothing is held for the peer any more."""
        holding = self._by_peer.pop(peer, None)
        if holding is not None:
            self.total -= holding.size

    def expire(self, now: float) -> list[bytes]:
        """Return the peers that have made no progress for too long."""
        late = []
        for peer, holding in self._by_peer.items():
            if now - holding.since < self._patience:
                break
            late.append(peer)
        return late

    def _beyond(self) -> list[bytes]:
        over, leaving = self.total - self._budget, []
        for peer, holding in self._by_peer.items():
            if over <= 0:
                break
            over -= holding.size
            leaving.append(peer)
        return leaving
