"""When to dial a server again although libzmq thinks that it need not.

libzmq dials again when a connection is lost. It does not after a message that breaks its protocol, such as a
damaged header or a frame that is too large: it closes the connection, and the socket stays without one for
good. Pure: no sockets, no clock.
"""

from __future__ import annotations

FIRST_SECONDS = 30.0
"""Seconds without a sign of the server after which we dial: as long as libzmq waits at most between two
attempts. The time doubles until something is heard, so that many peers do not dial an absent server at
once."""
LONGEST_SECONDS = 600.0
"""Longest wait between two dials."""


class Redial:
    """Counts from the end of a connection, or from the beginning of a time without a session, until something
    is heard."""

    def __init__(self) -> None:
        self._quiet_since: float | None = None
        self._wait = FIRST_SECONDS

    def waits(self, now: float) -> None:
        """Note that nothing comes from the server: the connection has ended, or there is no session."""
        if self._quiet_since is None:
            self._quiet_since = now

    def heard(self) -> None:
        """Note that a message has come."""
        self._quiet_since, self._wait = None, FIRST_SECONDS

    def due(self) -> float | None:
        """Return when to call `take` if nothing else happens; None: never."""
        return None if self._quiet_since is None else self._quiet_since + self._wait

    def take(self, now: float) -> bool:
        """Return whether to dial now. The next time is counted from here."""
        due = self.due()
        if due is None or now < due:
            return False
        self._quiet_since = now
        self._wait = min(2 * self._wait, LONGEST_SECONDS)
        return True
