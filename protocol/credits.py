"""Credits: how many leaves, and how many bytes of games, each session may have in flight.

Credits limit the load; the high-water marks are only a safeguard. The sum of all grants is bounded, so no
client, however it is written, can make the front hold more leaves than it has memory for. The smallest grant
is reserved for every session that may still join, so each newcomer gets at least that. Larger grants share
what is left.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from protocol.sessions import MAX_SESSIONS

LEAST_GRANT = 128
"""Least number of leaves granted to a player: one message of an efficient size (`docs/protocol.md`)."""
SESSION_BYTES = 2 * 1024 * 1024
"""Most bytes of a session's games that are not acknowledged; a single game may have more
(`docs/protocol.md`)."""
BYTES_OF_ALL = 64 * 1024 * 1024
"""Most bytes of all games that the trainer holds without having acknowledged them: 8,192 small ones, or about
2,500 of chess with 800 simulations."""
BYTES_OF_KEY = BYTES_OF_ALL // 4
"""Most bytes of unacknowledged games from all sessions of one key, however many sessions the key has."""
LEAST_GAME_BYTES = 8 * 1024
"""Least bytes that a game counts for: however short, it costs messages, a check and a row in the store."""
CHANGE_SECONDS = 10.0
"""Seconds for which requests sent under the old, larger grant are still accepted."""


def counted_bytes(size: int) -> int:
    """Return what a game of `size` bytes counts for."""
    return max(size, LEAST_GAME_BYTES)


@dataclass(slots=True)
class _Account:
    limit: int
    """The limit that the session was told."""
    ceiling: int
    """Most leaves that are accepted; it stays above `limit` for a while after a grant was lowered."""
    in_flight: int = 0
    lowered_at: float = 0.0


class Credits:
    """Leaves in flight by session. Pure bookkeeping: no clock, no sockets."""

    def __init__(self, total: int, *, minimum: int = 1, sessions: int = MAX_SESSIONS) -> None:
        """Allow `total` leaves in flight together and at least `minimum` for each of `sessions` sessions.

        Raises ValueError when these minimums do not fit into `total`.
        """
        # Check this now; otherwise a session that joins late might not get its minimum.
        if sessions * minimum > total:
            raise ValueError(f"{sessions} sessions of {minimum} leaves are more than {total} leaves")
        self.total = total
        self.minimum = minimum
        self.sessions = sessions
        self.granted = 0
        """The sum of what all sessions may have in flight. A grant that was just lowered still counts at its
        old size."""
        self._accounts: dict[int, _Account] = {}

    @property
    def free(self) -> int:
        """Return how many leaves may be granted beyond the minimums reserved for sessions yet to come."""
        return self.total - self.granted - self.minimum * (self.sessions - len(self._accounts))

    def grant(self, session: int, wanted: int) -> int:
        """Open an account and return its limit: `wanted`, or what is free if that is less, but at least the
        minimum.

        Returns 0 (and opens no account) when there are `sessions` accounts already. A session that has an
        account keeps it unchanged, because HELLO may come twice.
        """
        if session in self._accounts:
            return self._accounts[session].limit
        if len(self._accounts) >= self.sessions:
            return 0
        # The minimum is reserved for this session, so only the rest comes from the free leaves.
        limit = self.minimum + max(0, min(wanted - self.minimum, self.free))
        self._accounts[session] = _Account(limit, limit)
        self.granted += limit
        return limit

    def fair(self, sessions: int) -> int:
        """Return the largest grant that this many sessions can all have."""
        return self.minimum + (self.total - self.minimum * self.sessions) // sessions

    def revise(self, wanted: Mapping[int, int], now: float) -> None:
        """Change the grants to `wanted` (by session): never below the minimum, and upwards only as far as
        leaves are free.

        A lower limit holds for requests still to be sent. Requests that came before the session could know of
        it are accepted for `CHANGE_SECONDS`, and leaves then in flight stay until they are answered.
        """
        for session, account in self._accounts.items():
            limit = max(wanted.get(session, account.limit), self.minimum)
            if account.ceiling > account.limit and now - account.lowered_at >= CHANGE_SECONDS:
                # Leaves in flight were accepted, and stay until they are answered.
                self._set_ceiling(account, max(account.limit, account.in_flight))
            if limit < account.limit:
                account.limit, account.lowered_at = limit, now
            elif limit > account.limit:
                # A session whose grant was lowered still counts for its ceiling, so it may have that back
                # first.
                room = account.ceiling + max(0, self.free)
                account.limit = max(account.limit, min(limit, room))
                self._set_ceiling(account, max(account.ceiling, account.limit))

    def take(self, session: int, leaves: int) -> bool:
        """Count `leaves` as in flight. Returns False, and counts nothing, when that exceeds the session's
        credit."""
        account = self._accounts.get(session)
        if account is None or account.in_flight + leaves > account.ceiling:
            return False
        account.in_flight += leaves
        return True

    def release(self, session: int, leaves: int) -> None:
        """Subtract `leaves` that were answered or refused. Does nothing for a session that is gone."""
        account = self._accounts.get(session)
        if account is not None:
            account.in_flight = max(0, account.in_flight - leaves)

    def forget(self, session: int) -> None:
        """Close the account of a session that ended."""
        account = self._accounts.pop(session, None)
        if account is not None:
            # The session counted for its ceiling, which may be more than its limit.
            self.granted -= account.ceiling

    def in_flight(self, session: int) -> int:
        account = self._accounts.get(session)
        return 0 if account is None else account.in_flight

    def limit(self, session: int) -> int:
        """Return how many leaves the session may have in flight; 0 without an account."""
        account = self._accounts.get(session)
        return 0 if account is None else account.limit

    def _set_ceiling(self, account: _Account, ceiling: int) -> None:
        self.granted += ceiling - account.ceiling
        account.ceiling = ceiling
