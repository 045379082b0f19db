"""Named places around every important write, at which tests kill the process (tests/faults).

`AZ_CRASH_AT=spool.renamed:3` kills this process with SIGKILL when it reaches that place for the third time.
Without the variable, each place costs one function call and does nothing. `NAMES` lists all places; a test
compares the list with the source.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

VARIABLE = "AZ_CRASH_AT"

NAMES = (
    "archive.kept",
    "archive.restored",
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
    "takeover.moved",
    "store.begun",
    "store.inserted",
    "store.committed",
    "trainer.acknowledged",
    "uploader.sent",
    "uploader.acknowledged",
    "weights.adopted",
)
"""Names of the form PART.PLACE; the process is killed just after it has passed the place."""


def _from_environment() -> Callable[[str], None] | None:
    name, _, times = os.environ.get(VARIABLE, "").partition(":")
    if not name:
        return None
    # A misspelt place would never be reached, and the test would pass without testing anything.
    if name not in NAMES or not (times or "1").isdigit():
        raise SystemExit(f"{VARIABLE}={name}:{times} names no crash point; they are {', '.join(NAMES)}")
    return killing(name, int(times or 1))


def killing(name: str, times: int) -> Callable[[str], None]:
    """Return a watcher that kills the process with SIGKILL when it reaches the place `name` for the
    `times`-th time."""
    left = times

    def count(reached: str) -> None:
        nonlocal left
        if reached == name:
            left -= 1
            if left == 0:
                # SIGKILL leaves the process no chance to clean up, which is what the tests examine.
                os.kill(os.getpid(), signal.SIGKILL)

    return count


watcher: Callable[[str], None] | None = _from_environment()
"""Called with the name of each place that is reached. Simulations set their own watcher, which ends one
simulated part instead of the whole process."""


def reach(name: str) -> None:
    """Note that the process has reached this place."""
    if watcher is not None:
        watcher(name)
