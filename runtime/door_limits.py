"""What the peers of a door may cost (decision 21)."""

from __future__ import annotations

from dataclasses import dataclass, field

from protocol.zmtp import Limits
from runtime.pacing import PaceLimits


@dataclass(frozen=True)
class DoorLimits:
    """What peers may cost. The bounds hold whatever they send."""

    incoming: Limits = field(default_factory=Limits)
    unsent: int = 4 * 1024 * 1024 + 256 * 1024
    """Bytes queued for one peer with a session, beside what the kernel holds: eight chunks of weights."""
    unsent_stranger: int = 64 * 1024
    """The same for a peer without."""
    held: int = 256 * 1024 * 1024
    """Bytes held for all peers together: unfinished messages and what they do not read."""
    patience: float = 60.0
    """Seconds without progress after which a peer for whom something is held is cut off."""
    connections: int = 11_000
    """At most. When there are so many, one without a session goes for a new one, or the new one does."""
    strangers: int = 1000
    """Connections without a session."""
    stranger_patience: float = 60.0
    """Seconds that one may have none: longer than the waits between two HELLOs."""
    talk: PaceLimits = PaceLimits(rate=100.0, burst=60.0)
    """Messages of one connection that bring no work (`Door.charge`)."""
    talk_of_address: PaceLimits = PaceLimits(rate=240.0, burst=60.0)
    """The same of all connections from one address, and the connections themselves. A thousand workers behind
    one address are all there after 20 s; after 29 s where they show keys."""
    crumbs: PaceLimits = PaceLimits(rate=1.0, burst=10.0)
    """Crumbs of one connection (`runtime.pacing.CRUMB`), and PINGs, that count for nothing: those of its
    handshake and of an honest peer. So these never wait, and a thousand peers that are quiet say nothing."""
    handshake_patience: float = 10.0
    """Seconds that a peer has for greeting and handshake."""
    ping_after: float = 5.0
    """Seconds of silence after which a peer gets a PING: a host that vanished says nothing."""
    ping_patience: float = 15.0
    """Seconds that it has for the answer."""
