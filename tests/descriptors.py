"""Leaves a process without free file descriptors, like a server that has as many connections as it may
have."""

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_descriptor_left() -> Iterator[None]:
    """Leave no free descriptor during the block. What is open stays open."""
    lowest_free = os.dup(0)
    os.close(lowest_free)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
