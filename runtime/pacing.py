"""How fast a peer, or all peers at one address, may have what costs the server and brings it nothing.

A bucket of tokens: a burst is taken at once, then so many a second. Leaves and games that are taken are not
counted here, as credits and windows bound them. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass

MEGABYTE = 1024 * 1024
LONGEST_DEBT = 60.0
"""Seconds in which any debt is paid: nobody is held up for longer by what somebody at its address did."""


@dataclass(frozen=True)
class PaceLimits:
    """Of one connection, or of all connections from one address. Tokens are messages, or bytes."""

    rate: float
    """Tokens a second."""
    burst: float
    """Tokens that are taken at once."""


class Pace:
    """The bucket of one connection or address."""

    def __init__(self, limits: PaceLimits, now: float) -> None:
        self._limits = limits
        self._tokens = limits.burst
        self._at = now

    def take(self, now: float, tokens: float = 1.0) -> float:
        """So many are used now, whether they are there or not. Seconds until the debt is paid."""
        self._tokens = max(self._left(now) - tokens, -LONGEST_DEBT * self._limits.rate)
        self._at = now
        return self.wait(now)

    def wait(self, now: float) -> float:
        """Seconds until the debt is paid, 0 if there is none."""
        return max(0.0, -self._left(now) / self._limits.rate)

    def is_rested(self, now: float) -> bool:
        """Whether it is as good as new."""
        return self._left(now) >= self._limits.burst

    def _left(self, now: float) -> float:
        return min(self._limits.burst, self._tokens + self._limits.rate * (now - self._at))


class AddressPaces:
    """A bucket for each address. The address "" stands for this machine's own processes: it never waits."""

    def __init__(self, limits: PaceLimits) -> None:
        self._limits = limits
        self._paces: dict[str, Pace] = {}

    def __len__(self) -> int:
        return len(self._paces)

    def take(self, address: str, now: float, tokens: float = 1.0) -> float:
        """As `Pace.take`."""
        if not address:
            return 0.0
        pace = self._paces.get(address)
        if pace is None:
            pace = self._paces[address] = Pace(self._limits, now)
        return pace.take(now, tokens)

    def wait(self, address: str, now: float) -> float:
        """As `Pace.wait`."""
        pace = self._paces.get(address)
        return 0.0 if pace is None else pace.wait(now)

    def tidy(self, now: float) -> None:
        """Forget those that are as good as new."""
        for address in [one for one, pace in self._paces.items() if pace.is_rested(now)]:
            del self._paces[address]
