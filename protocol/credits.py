"""Credits: how many leaves each session may have in flight. The control; high-water marks are the fuse.

The sum of all grants is bounded, so that no set of clients, however written, can make the front hold
more leaves than it has memory for. The smallest grant is kept free for every session that may still come,
so that whoever joins is granted something: larger grants are made of what is left.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from protocol.sessions import MAX_SESSIONS

LEAST_GRANT = 128
"""Leaves every player is granted at least: one message of the size that pays (`docs/protocol.md`)."""
CHANGE_SECONDS = 10.0
"""After a grant was lowered, for so long requests that were sent under the larger one are taken."""


@dataclass(slots=True)
class _Account:
    limit: int
    """As the session is told."""
    ceiling: int
    """What is taken at most; above `limit` for a while after a grant was lowered."""
    in_flight: int = 0
    lowered_at: float = 0.0


class Credits:
    """Leaves in flight by session. Pure bookkeeping: no clock, no sockets."""

    def __init__(self, total: int, *, minimum: int = 1, sessions: int = MAX_SESSIONS) -> None:
        """`total` leaves may be in flight together, at least `minimum` of each of `sessions` sessions.

        ValueError when these do not fit into `total`.
        """
        if sessions * minimum > total:
            raise ValueError(f"{sessions} sessions of {minimum} leaves are more than {total} leaves")
        self.total = total
        self.minimum = minimum
        self.sessions = sessions
        self.granted = 0
        """The sum of what all sessions may have in flight, those just lowered at what they had."""
        self._accounts: dict[int, _Account] = {}

    def __len__(self) -> int:
        return len(self._accounts)

    @property
    def free(self) -> int:
        """Leaves that may be granted beyond the minimum that is kept for sessions yet to come."""
        return self.total - self.granted - self.minimum * (self.sessions - len(self._accounts))

    def grant(self, session: int, wanted: int) -> int:
        """Open an account and return its limit: `wanted`, or as much as is free, at least the minimum.

        0 (no account) when there are `sessions` accounts. A session that has an account keeps it as it is:
        HELLO may come twice.
        """
        if session in self._accounts:
            return self._accounts[session].limit
        if len(self._accounts) >= self.sessions:
            return 0
        limit = self.minimum + max(0, min(wanted - self.minimum, self.free))
        self._accounts[session] = _Account(limit, limit)
        self.granted += limit
        return limit

    def fair(self, sessions: int) -> int:
        """The largest grant that as many sessions may all have."""
        return self.minimum + (self.total - self.minimum * self.sessions) // sessions

    def revise(self, wanted: Mapping[int, int], now: float) -> None:
        """Move grants to `wanted` by session, not below the minimum, and up only as far as leaves are free.

        A lower limit holds for requests that are still to be sent: what came before the session could know of
        it is taken for `CHANGE_SECONDS`, and what is in flight then stays until it is answered.
        """
        for session, account in self._accounts.items():
            limit = max(wanted.get(session, account.limit), self.minimum)
            if account.ceiling > account.limit and now - account.lowered_at >= CHANGE_SECONDS:
                self._set_ceiling(account, max(account.limit, account.in_flight))
            if limit < account.limit:
                account.limit, account.lowered_at = limit, now
            elif limit > account.limit:
                room = account.ceiling + max(0, self.free)
                account.limit = max(account.limit, min(limit, room))
                self._set_ceiling(account, max(account.ceiling, account.limit))

    def take(self, session: int, leaves: int) -> bool:
        """Count `leaves` as in flight; False, and nothing taken, when over credit."""
        account = self._accounts.get(session)
        if account is None:
            return False
        if leaves < 0 or account.in_flight + leaves > account.ceiling:
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
        if account is None:
            return 0
        self.granted -= account.ceiling
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

    def _set_ceiling(self, account: _Account, ceiling: int) -> None:
        self.granted += ceiling - account.ceiling
        account.ceiling = ceiling
