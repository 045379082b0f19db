"""Which peers claim places in the relay's window, and how many each may hold. Pure.

A peer claims places while it holds one, or if it was rejected for lack of one less than `CLAIM_SECONDS`
ago. The places are divided between owners (a key, or a peer without one), and an owner's places between
its peers. All counts are kept up to date, so a game costs the same among ten sessions and among ten
thousand.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from typing import TypeVar

K = TypeVar("K", bound=Hashable)

CLAIM_SECONDS = 5.0
"""Seconds for which the claim of a rejected peer is kept; it returns after `server.relay.RETRY_BUSY`."""


class Claims:
    """The places of one window."""

    def __init__(self, window: int) -> None:
        """`window`: number of places."""
        self._window = window
        self._total = 0
        """Places held by all peers."""
        self._held: Counter[bytes] = Counter()
        """Places by peer. This and the next two keep no zeros."""
        self._held_by: Counter[Hashable] = Counter()
        """Places by owner."""
        self._peers_of: Counter[Hashable] = Counter()
        """Number of peers of an owner that claim places."""
        self._owner: dict[bytes, Hashable] = {}
        """The owner of each peer that claims places."""
        self._sent_back: dict[bytes, float] = {}
        """When a peer was last rejected for lack of a place, oldest first."""

    def held(self, peer: bytes) -> int:
        """Return how many places `peer` holds."""
        return self._held[peer]

    def take(self, peer: bytes, owner: Hashable, now: float) -> bool:
        """Give `peer` one more place and return True, if it may hold one more. Otherwise note its claim."""
        self._expire(now)
        if peer not in self._owner:
            self._owner[peer] = owner
            self._peers_of[owner] += 1
        self._sent_back.pop(peer, None)
        of_owner = max(1, self._window // len(self._peers_of))
        of_peer = max(1, of_owner // self._peers_of[owner])
        room = self._held_by[owner] < of_owner and self._total < self._window
        if room and self._held[peer] < of_peer:
            self._total += 1
            self._held[peer] += 1
            self._held_by[owner] += 1
            return True
        self._sent_back[peer] = now
        return False

    def give_back(self, peer: bytes) -> None:
        """Free a place of `peer`."""
        self._total -= 1
        _less(self._held, peer)
        _less(self._held_by, self._owner[peer])
        self._look_at(peer)

    def clear(self) -> None:
        """Free all places, and forget all claims."""
        self._total = 0
        for counts in (self._held, self._held_by, self._peers_of, self._owner, self._sent_back):
            counts.clear()

    def _expire(self, now: float) -> None:
        while self._sent_back:
            longest = next(iter(self._sent_back))
            if now - self._sent_back[longest] < CLAIM_SECONDS:
                break
            del self._sent_back[longest]
            self._look_at(longest)

    def _look_at(self, peer: bytes) -> None:
        """Forget a peer that claims nothing any more."""
        if peer not in self._held and peer not in self._sent_back:
            _less(self._peers_of, self._owner.pop(peer))


def _less(counts: Counter[K], key: K) -> None:
    """Subtract one; zeros are removed."""
    counts[key] -= 1
    if not counts[key]:
        del counts[key]
