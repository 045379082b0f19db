"""Bytes held for peers that do not finish what they send or do not read what they get. Pure.

Together they are bounded: beyond the budget the peer goes that has made no progress for the longest time. An
honest peer's message is on its way for milliseconds, an attacker's for as long as it lasts.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass


@dataclass
class _Holding:
    size: int
    since: float
    """When it last made progress."""


class Holdings:
    """For whom how much is held, least recent progress first."""

    def __init__(self, budget: int, patience: float) -> None:
        """`budget`: bytes for all together. `patience`: seconds without progress that a peer may have."""
        self.total = 0
        self._budget = budget
        self._patience = patience
        self._by_peer: OrderedDict[bytes, _Holding] = OrderedDict()

    def update(self, peer: bytes, size: int, now: float, *, progress: bool) -> list[bytes]:
        """`size` bytes are held for `peer` now. Gives the peers that have to go, perhaps this one."""
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
        """Nothing is held for it any more."""
        holding = self._by_peer.pop(peer, None)
        if holding is not None:
            self.total -= holding.size

    def expire(self, now: float) -> list[bytes]:
        """Peers that have made no progress for too long."""
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
