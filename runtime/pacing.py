"""How fast a peer, or all peers at one address, may have what costs the server and brings it nothing.

A bucket of tokens: a burst is taken at once, then so many a second. Leaves and games that are taken are not
counted here, as credits and windows bound them. Pure.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

MEGABYTE = 1024 * 1024
CONNECTION_PRICE = 4.0
"""Messages without work that a connection counts for: to take it, greet it and end it costs as much."""
PRICED_BYTES = 64 * 1024
"""Bytes whose reading costs about as much as one message without work."""
CRUMB = 512
"""Bytes. A reading of less, and any of a peer without a session, is a crumb when it completes no message:
byte by byte, or with nothing but PINGs, a peer wakes the front as often as it likes."""
CRUMB_PRICE = 1.0
"""Messages without work that a crumb counts for. What costs less makes nobody wait: nothing is put off within
a handshake, of which there is one for the price of a connection."""
LEAST_PAUSE = 0.1
"""Seconds. A shorter wait is none, and pauses end at multiples of this: to stop reading and to begin again
costs more than a message, so there shall be some at a time, of all who wait."""
LONGEST_PAUSE = 5.0
"""Seconds that a peer is not read because of what it, or others at its address, said. Who would have to wait
longer for its own talk alone is cut."""
LONGEST_GREETING = 2.0
"""Seconds that a new connection waits for its greeting. One that would have to wait longer is not taken:
clients give up a handshake after 5 s, and what was spent on it is lost."""
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
        rate = self._limits.rate
        self._tokens = left = max(self._left(now) - tokens, -LONGEST_DEBT * rate)
        self._at = now
        return 0.0 if left >= 0.0 else -left / rate

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


def pause_of(wait: float) -> float:
    """Seconds that a peer is not read which should wait for so long."""
    return 0.0 if wait < LEAST_PAUSE else min(LONGEST_PAUSE, wait)


def end_of_pause(now: float, pause: float) -> float:
    """When a pause that begins now ends: with those of others."""
    return math.ceil((now + pause) / LEAST_PAUSE) * LEAST_PAUSE
