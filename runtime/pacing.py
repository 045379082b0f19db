"""How fast a peer may send messages that bring the server no work: HELLO, PING, questions, what is refused.

A bucket of tokens: a burst is taken at once, then so many a second. Leaves and games are not counted here, as
credits and windows bound them. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PaceLimits:
    """Of one connection, or of all connections from one address."""

    rate: float
    """Messages a second."""
    burst: float
    """Messages that are taken at once."""


class Pace:
    """The messages of one connection or address."""

    def __init__(self, limits: PaceLimits, now: float) -> None:
        self._limits = limits
        self._tokens = limits.burst
        self._at = now

    def take(self, now: float) -> float:
        """One more message has come. Seconds until the next one may be read, 0 if that is now."""
        self._tokens = self._left(now) - 1
        self._at = now
        return max(0.0, -self._tokens / self._limits.rate)

    def is_rested(self, now: float) -> bool:
        """Whether it is as good as new."""
        return self._left(now) >= self._limits.burst

    def _left(self, now: float) -> float:
        return min(self._limits.burst, self._tokens + self._limits.rate * (now - self._at))
