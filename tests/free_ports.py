"""Ports for tests that start servers.

A port that was only found free may be lost before it is bound: seconds pass while a process imports, and
test files run side by side. So a process of tests claims its ports, among all on this machine, until it ends.
"""

from __future__ import annotations

import random
from contextlib import ExitStack

from azselfplay.host.ports import claimed_base_port

FIRST, LAST = 10_000, 27_000
"""Below the ports that the kernel gives to outgoing connections (on Linux from 32,768 on): nobody can claim
those."""
_claims = ExitStack()


def free_base_port() -> int:
    """Return a base port; it and the nine ports behind it are this process's until it ends."""
    # Not from `random` itself: hypothesis gives all processes the same seed.
    first = random.SystemRandom().randrange(FIRST, LAST, 10)
    return _claims.enter_context(claimed_base_port(first))
