"""Free memory between used memory goes back to the system."""

from pathlib import Path

import pytest

from azselfplay.host.hardware import give_back

MEGABYTE = 2**20


def resident() -> int:
    """Return the bytes of memory of this process."""
    return 4096 * int(Path("/proc/self/statm").read_text().split()[1])


def test_what_was_freed_in_the_middle_of_the_heap_goes_back() -> None:
    blocks = [bytes(60_000) for _ in range(1000)]
    full = resident()
    kept = blocks[::50]
    del blocks
    if not give_back():
        pytest.skip("this C library gives back by itself, or never")
    assert full - resident() > 40 * MEGABYTE
    assert sum(map(len, kept)) == 20 * 60_000
