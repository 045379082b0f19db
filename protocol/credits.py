"""Credits: how many leaves each session may have in flight. The control; high-water marks are the fuse.

The sum of all grants is bounded, so that no set of clients, however written, can make the front hold
more leaves than it has memory for.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

LEAST_GRANT = 128
"""Leaves every player is granted at least: one message of the size that pays (`docs/protocol.md`)."""


@dataclass
class _Account:
    limit: int
    in_flight: int = 0


class Credits:
    """Leaves in flight by session. Pure bookkeeping: no clock, no sockets."""

    def __init__(self, total: int, *, minimum: int = 1) -> None:
        """`total` leaves may be granted together; a grant smaller than `minimum` is not worth having."""
        self.total = total
        self.minimum = minimum
        self.granted = 0
        self.violations: Counter[int] = Counter()
        """Requests refused for want of credit, by session (only of sessions that are there)."""
        self._accounts: dict[int, _Account] = {}

    def grant(self, session: int, wanted: int) -> int:
        """Open an account and return its limit: `wanted`, what is left, or 0 (no account: busy).

        A session that has an account keeps it as it is: HELLO may come twice.
        """
        if session in self._accounts:
            return self._accounts[session].limit
        limit = min(wanted, self.total - self.granted)
        if limit < max(self.minimum, 1):
            return 0
        self._accounts[session] = _Account(limit)
        self.granted += limit
        return limit

    def take(self, session: int, leaves: int) -> bool:
        """Count `leaves` as in flight; False, counted as a violation and nothing taken, when over credit."""
        account = self._accounts.get(session)
        if account is None:
            return False
        if leaves < 0 or account.in_flight + leaves > account.limit:
            self.violations[session] += 1
            return False
        account.in_flight += leaves
        return True

    def release(self, session: int, leaves: int) -> None:
        """`leaves` were answered or refused. Answers to a session that has gone are nobody's business."""
        account = self._accounts.get(session)
        if account is not None:
            account.in_flight = max(0, account.in_flight - leaves)

    def forget(self, session: int) -> int:
        """Close the account of a session that ended; returns the leaves it still had in flight."""
        account = self._accounts.pop(session, None)
        self.violations.pop(session, None)
        if account is None:
            return 0
        self.granted -= account.limit
        return account.in_flight

    def in_flight(self, session: int) -> int:
        account = self._accounts.get(session)
        return 0 if account is None else account.in_flight

    def limit(self, session: int) -> int:
        """Leaves the session may have in flight, 0 without an account."""
        account = self._accounts.get(session)
        return 0 if account is None else account.limit

    @property
    def total_in_flight(self) -> int:
        return sum(account.in_flight for account in self._accounts.values())
