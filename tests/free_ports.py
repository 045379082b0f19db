"""Ports for tests that start servers.

A free port may be taken before a server binds it: seconds pass while a process imports, and test files run
side by side. So each test process claims its ports machine-wide until it ends.
"""

import random
from contextlib import ExitStack

from azselfplay.host.ports import claimed_base_port

FIRST, LAST = 10_000, 27_000
"""The range lies below the ports that the kernel gives to outgoing connections (on Linux 32,768 and above),
which nobody can claim."""
_claims = ExitStack()


def free_base_port() -> int:
    """Return a base port. It and the next nine ports belong to this process until it ends."""
    # `random` itself would give all processes the same port, because hypothesis seeds it alike.
    first = random.SystemRandom().randrange(FIRST, LAST, 10)
    return _claims.enter_context(claimed_base_port(first))
