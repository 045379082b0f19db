"""Rate limits for messages and connections that cost the server time and bring it no work.

A token bucket: a burst is allowed at once, then a number per second. Accepted leaves and games are not
counted here, because credits and windows bound them. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass

PRICED_BYTES = 64 * 1024
"""Bytes whose reading costs about as much as handling one message without work."""
SMALL_READ = 512
"""Bytes. A smaller read that completes no message is charged like a message: with single bytes, or nothing
but PINGs, a peer could otherwise wake the front as often as it likes. Parts of large messages are larger."""
LEAST_PAUSE = 0.1
"""Seconds. A shorter wait is ignored, and pauses end at multiples of this: stopping and resuming reading
costs more than a message, so several waiting peers should resume together."""
LONGEST_PAUSE = 5.0
"""Seconds. A peer that would have to wait longer for its messages is cut."""


@dataclass(frozen=True)
class RateLimit:
    """The limit of one connection or address. Tokens are messages or connections."""

    rate: float
    """Tokens added per second."""
    burst: float
    """Tokens that may be taken at once."""


class TokenBucket:
    """The tokens of one connection or address."""

    def __init__(self, limit: RateLimit, now: float) -> None:
        self._limit = limit
        self._tokens = limit.burst
        self._at = now

    def take(self, now: float, tokens: float = 1.0) -> float:
        """Use `tokens` tokens now, whether they are available or not. Returns seconds until the debt is
        paid."""
        # May go below 0: the debt is what the peer waits for.
        self._tokens = self._left(now) - tokens
        self._at = now
        return self.wait(now)

    def wait(self, now: float) -> float:
        """Return seconds until the debt is paid, 0 if there is none."""
        return max(0.0, -self._left(now) / self._limit.rate)

    def is_rested(self, now: float) -> bool:
        """Return whether the bucket is full again."""
        return self._left(now) >= self._limit.burst

    def _left(self, now: float) -> float:
        return min(self._limit.burst, self._tokens + self._limit.rate * (now - self._at))


def price(size: int) -> float:
    """Return the tokens that a message, or a read, of `size` bytes costs if it brings no work."""
    return 1.0 + size / PRICED_BYTES
