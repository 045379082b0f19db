"""Who claims places of the relay's window, and how many each may hold. Pure.

A peer claims places while it holds one, or was sent back for want of one less than `CLAIM_SECONDS` ago. The
places are shared by owner (a key, or a peer that needed none), and those of an owner by peer. Everything is
counted as it changes, so that a game costs the same among ten sessions and among ten thousand.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from typing import TypeVar

K = TypeVar("K", bound=Hashable)

CLAIM_SECONDS = 5.0
"""For so long a peer that was sent back is waited for; it comes again after `server.relay.RETRY_BUSY`."""


class Claims:
    """The places of one window."""

    def __init__(self, window: int) -> None:
        """`window`: places there are."""
        self._window = window
        self._total = 0
        """Places that are held."""
        self._held: Counter[bytes] = Counter()
        """Places by peer; no zeros. Likewise the next two."""
        self._held_by: Counter[Hashable] = Counter()
        """By owner."""
        self._peers_of: Counter[Hashable] = Counter()
        """How many peers of an owner claim places."""
        self._owner: dict[bytes, Hashable] = {}
        """Of the peers that claim places."""
        self._sent_back: dict[bytes, float] = {}
        """When a peer was last sent back for want of a place, oldest first."""

    def held(self, peer: bytes) -> int:
        """Places that `peer` holds."""
        return self._held[peer]

    def take(self, peer: bytes, owner: Hashable, now: float) -> bool:
        """Give `peer` a place more, if it may hold one more. If not, its claim is noted."""
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
        """A place of `peer` is free again."""
        self._total -= 1
        _less(self._held, peer)
        _less(self._held_by, self._owner[peer])
        self._look_at(peer)

    def clear(self) -> None:
        """All places are free, and nobody claims one."""
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
    """One less; no zeros are kept."""
    counts[key] -= 1
    if not counts[key]:
        del counts[key]
