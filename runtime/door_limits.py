"""Limits on what the peers of a door may cost (decision 21)."""

from __future__ import annotations

from dataclasses import dataclass, field

from protocol.zmtp import Limits
from runtime.pacing import PaceLimits


@dataclass(frozen=True)
class DoorLimits:
    """Limits on what peers may cost. They hold whatever the peers send."""

    incoming: Limits = field(default_factory=Limits)
    unsent: int = 4 * 1024 * 1024 + 256 * 1024
    """Bytes queued for one peer with a session, besides those in the kernel: eight chunks of weights."""
    unsent_stranger: int = 64 * 1024
    """Bytes queued for one peer without a session."""
    held: int = 256 * 1024 * 1024
    """Bytes held for all peers together: unfinished messages and messages that they do not read."""
    patience: float = 60.0
    """Seconds without progress after which a peer for which something is held is cut."""
    connections: int = 11_000
    """Most connections. Beyond that a new one replaces one without a session, or is turned away."""
    strangers: int = 1000
    """Most connections without a session."""
    stranger_patience: float = 60.0
    """Seconds that a connection may have no session: longer than the waits between two HELLOs."""
    talk: PaceLimits = PaceLimits(rate=100.0, burst=60.0)
    """Messages of one connection that bring no work (`Door.charge`)."""
    talk_of_address: PaceLimits = PaceLimits(rate=240.0, burst=60.0)
    """The same for all connections from one address, including the connections themselves. A thousand workers
    behind one address have all joined after 20 s, or after 29 s with keys."""
    newcomers: PaceLimits = PaceLimits(rate=1200.0, burst=1200.0)
    """The connections of all addresses together, each at its price: 200 handshakes with keys a second, which
    take a twentieth of a core. Sessions do not wait for it."""
    crumbs: PaceLimits = PaceLimits(rate=1.0, burst=10.0)
    """Free allowance of one connection for crumbs (`runtime.pacing.CRUMB`) and PINGs: those of its handshake
    and of an honest peer. So these never wait, and a thousand quiet peers cost nothing."""
    handshake_patience: float = 10.0
    """Seconds that a peer has for greeting and handshake."""
    ping_after: float = 5.0
    """Seconds of silence after which a peer gets a PING, because a host that vanished sends nothing."""
    ping_patience: float = 15.0
    """Seconds that the peer has to answer a PING."""
