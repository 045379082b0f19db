"""Processor time of processes, read from Linux's /proc (proc(5))."""

from __future__ import annotations

import os
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
"""Ticks per second, the unit of /proc."""


def seconds_of(pid: int) -> float:
    """Return the seconds of one process with all its threads. Raises OSError if there is none."""
    user, system = _stat(pid)[11:13]
    return (int(user) + int(system)) / TICKS


def seconds_of_trees(roots: Collection[int]) -> float:
    """Return the seconds of these processes and their descendants, including those in other sessions and
    children that they have waited for."""
    ticks, parents = dict[int, int](), dict[int, int]()
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # the process has ended meanwhile
            fields, pid = _stat(int(folder.name)), int(folder.name)
            ticks[pid], parents[pid] = sum(map(int, fields[11:15])), int(fields[1])

    def is_below(pid: int) -> bool:
        while pid not in roots:
            if pid not in parents:
                return False
            pid = parents[pid]
        return True

    return sum(ticks[pid] for pid in ticks if is_below(pid)) / TICKS


def _stat(pid: int) -> list[str]:
    """Return the fields of `stat` from the third (the state) on."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
