"""Ports for tests that start servers.

A free port may be taken before a server binds it: seconds pass while a process imports, and test files run
side by side. So each test process claims its ports machine-wide until it ends.
"""

import random
from contextlib import ExitStack
from pathlib import Path

from azselfplay.host.ports import LAST_BASE, TRIES, claimed_base_port

_claims = ExitStack()


def _room(low: int, high: int) -> range:
    """Return the ports to begin with if the kernel gives those from `low` to `high` to outgoing connections:
    nobody can claim these, so they are left out if there are enough others. `host/test_runs.py` has those
    between 27,000 and 32,000."""
    span = 10 * TRIES  # as far beyond the first one a free port is looked for
    below = 10_000, min(low, 27_000 + span)
    first, last = max(below, (high + 1, LAST_BASE), key=lambda part: part[1] - part[0])
    return range(first, last - span, 10) or range(10_000, LAST_BASE - span, 10)


_first = _room(*map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()))


def free_base_port() -> int:
    """Return a base port. It and the next nine ports belong to this process until it ends."""
    # `random` itself would give all processes the same port, because hypothesis seeds it alike.
    return _claims.enter_context(claimed_base_port(random.SystemRandom().choice(_first)))
