"""Rate limits for what costs the server and brings it no work, per peer or per address.

A token bucket: a burst is allowed at once, then a number per second. Accepted leaves and games are not
counted here, because credits and windows bound them. Pure.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

MEGABYTE = 1024 * 1024
CONNECTION_PRICE = 4.0
"""Messages without work that a connection counts as: accepting, greeting and ending it costs as much."""
PRICED_BYTES = 64 * 1024
"""Bytes whose reading costs about as much as one message without work."""
CRUMB = 512
"""Bytes. A read is a crumb if it completes no message and has fewer bytes than this, or comes from a peer
without a session. With single bytes, or nothing but PINGs, a peer could wake the front as often as it
likes."""
CRUMB_PRICE = 1.0
"""Messages without work that a crumb counts as. A cheaper price delays nobody: nothing is delayed within a
handshake, which is covered by the price of its connection."""
LEAST_PAUSE = 0.1
"""Seconds. A shorter wait is ignored, and pauses end at multiples of this: stopping and resuming reading
costs more than a message, so several waiting peers should resume together."""
LONGEST_PAUSE = 5.0
"""Longest time in seconds that a peer is not read because of what it, or others at its address, sent. A peer
that would have to wait longer for its own messages alone is cut."""
LONGEST_GREETING = 2.0
"""Longest wait in seconds of a new connection for its greeting. If it would be longer, the connection is not
accepted: clients give up a handshake after 5 s, and the work spent on it is lost."""
LONGEST_DEBT = 60.0
"""Seconds in which any debt is paid: no peer is delayed longer because of others at its address."""


@dataclass(frozen=True)
class PaceLimits:
    """Limits of one connection, or of all connections from one address. Tokens are messages, or bytes."""

    rate: float
    """Tokens added per second."""
    burst: float
    """Tokens that may be taken at once."""


class Pace:
    """The token bucket of one connection or address."""

    def __init__(self, limits: PaceLimits, now: float) -> None:
        self._limits = limits
        self._tokens = limits.burst
        self._at = now

    def take(self, now: float, tokens: float = 1.0) -> float:
        """Use `tokens` tokens now, whether they are available or not. Returns seconds until the debt is
        paid."""
        rate = self._limits.rate
        self._tokens = left = max(self._left(now) - tokens, -LONGEST_DEBT * rate)
        self._at = now
        return 0.0 if left >= 0.0 else -left / rate

    def wait(self, now: float) -> float:
        """Return seconds until the debt is paid, 0 if there is none."""
        return max(0.0, -self._left(now) / self._limits.rate)

    def is_rested(self, now: float) -> bool:
        """Return whether the bucket is full again."""
        return self._left(now) >= self._limits.burst

    def _left(self, now: float) -> float:
        return min(self._limits.burst, self._tokens + self._limits.rate * (now - self._at))


class AddressPaces:
    """A token bucket for each address. The address "" stands for this machine's own processes and never
    waits."""

    def __init__(self, limits: PaceLimits) -> None:
        self._limits = limits
        self._paces: dict[str, Pace] = {}

    def __len__(self) -> int:
        return len(self._paces)

    def take(self, address: str, now: float, tokens: float = 1.0) -> float:
        """Like `Pace.take`."""
        if not address:
            return 0.0
        pace = self._paces.get(address)
        if pace is None:
            pace = self._paces[address] = Pace(self._limits, now)
        return pace.take(now, tokens)

    def wait(self, address: str, now: float) -> float:
        """Like `Pace.wait`."""
        pace = self._paces.get(address)
        return 0.0 if pace is None else pace.wait(now)

    def tidy(self, now: float) -> None:
        """Forget addresses whose buckets are full."""
        for address in [one for one, pace in self._paces.items() if pace.is_rested(now)]:
            del self._paces[address]


def place_of(owner: str, address: str) -> str:
    """Whose pace it is, in `AddressPaces`: that of the key of this name, wherever it comes from, so that keys
    behind one address do not wait for each other; of the address where no key is asked for ("")."""
    return f"key {owner}" if owner else address


def pause_of(wait: float) -> float:
    """Return how long, in seconds, a peer that should wait for `wait` seconds is not read."""
    return 0.0 if wait < LEAST_PAUSE else min(LONGEST_PAUSE, wait)


def end_of_pause(now: float, pause: float) -> float:
    """Return when a pause that begins now ends: together with other pauses."""
    return math.ceil((now + pause) / LEAST_PAUSE) * LEAST_PAUSE
