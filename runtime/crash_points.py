"""Named places around every write that matters, at which tests end the process (tests/faults).

`AZ_CRASH_AT=spool.renamed:3` kills this process with SIGKILL when it comes to that place for the third
time. Nothing else happens at these places: without the variable one costs a function call. `NAMES` is all
of them; a test compares it with the source.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

VARIABLE = "AZ_CRASH_AT"

NAMES = (
    "atomic.written",
    "atomic.synced",
    "atomic.replaced",
    "atomic.folder_synced",
    "checkpoint.weights_written",
    "checkpoint.written",
    "checkpoint.old_removed",
    "spool.written",
    "spool.synced",
    "spool.renamed",
    "spool.folder_synced",
    "spool.deleted",
    "spool.aside_noted",
    "spool.aside",
    "spool.kept_noted",
    "spool.kept",
    "spool.taken_back",
    "spool_folders.taken_over",
    "store.begun",
    "store.inserted",
    "store.committed",
    "trainer.acknowledged",
    "uploader.sent",
    "uploader.acknowledged",
    "weights.begun",
    "weights.appended",
    "weights.synced",
    "weights.replaced",
    "weights.folder_synced",
    "weights.adopted",
)
"""ROOM.PLACE: the place has just been passed when the process ends there."""


def _from_environment() -> Callable[[str], None] | None:
    name, _, times = os.environ.get(VARIABLE, "").partition(":")
    if not name:
        return None
    if name not in NAMES or not (times or "1").isdigit():
        raise SystemExit(f"{VARIABLE}={name}:{times} names no crash point; they are {', '.join(NAMES)}")
    return killing(name, int(times or 1))


def killing(name: str, times: int) -> Callable[[str], None]:
    """A watcher that ends the process with SIGKILL when it comes to this place for so many times."""
    left = times

    def count(reached: str) -> None:
        nonlocal left
        if reached == name:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    return count


watcher: Callable[[str], None] | None = _from_environment()
"""Called with the name of each place. Simulations set it: they end a part of themselves instead of a
process."""


def reach(name: str) -> None:
    """The process has come to this place."""
    if watcher is not None:
        watcher(name)
