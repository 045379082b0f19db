"""Whether a run is running, has ended, or has fallen silent: from its locks and the ages of its files."""

from __future__ import annotations

import contextlib
import os
import time
from enum import StrEnum
from pathlib import Path

from runtime.run_lock import Left, left_by
from runtime.runs import RunFolder

FRESH = 150.0
"""A run whose locks cannot be seen from here counts as running for this many seconds after its last figures
or game. While it trains, figures are written at least once a minute."""
PROGRAMS = ("azserver", "trainer")

Held = frozenset[tuple[int, int]]


class State(StrEnum):
    """The state of a run."""

    RUNNING = "running"
    ENDED = "ended"
    """Its processes ended cleanly: the figures in the folder are final."""
    SILENT = "silent"
    """Its processes were killed, or have sent nothing for some time."""


def state_of(run: RunFolder, held: Held) -> State:
    """The state of a run.

    held: `locked_inodes()`.
    """
    locks = [run.lock_of(program) for program in PROGRAMS]
    if any(_is_held(lock, held) for lock in locks):
        return State.RUNNING
    left = [found for lock in locks if (found := left_by(lock)) is not None]
    if Left.KILLED in left:
        return State.SILENT
    if left and Left.ELSEWHERE not in left:
        return State.ENDED
    if time.time() - _grew_at(run) < FRESH:
        return State.RUNNING
    return State.SILENT if left else State.ENDED


def _is_held(lock: Path, held: Held) -> bool:
    """Whether a process here holds the lock. On btrfs the kernel lists locks under another device than `stat`
    gives; there the inode counts if the file also names this machine as its holder's."""
    try:
        found = lock.stat()
    except OSError:
        return False
    if (found.st_dev, found.st_ino) in held:
        return True
    return any(inode == found.st_ino for _, inode in held) and left_by(lock) is Left.KILLED


def locked_inodes() -> Held:
    """(device, inode) of the files that processes hold a lock on. Trying a lock instead could keep a process
    from taking it."""
    found = set()
    with contextlib.suppress(OSError, ValueError):
        for line in Path("/proc/locks").read_text(encoding="ascii").splitlines():
            words = [word for word in line.split() if word != "->"]  # a waiting process
            major, minor, inode = words[5].split(":")
            found.add((os.makedev(int(major, 16), int(minor, 16)), int(inode)))
    return frozenset(found)


def changed_at(run: RunFolder) -> float:
    """When the run's figures or games last changed, seconds since 1970."""
    return max(_grew_at(run), *(modified(path) for path in (run.figures, run.about)))


def _grew_at(run: RunFolder) -> float:
    """When the last figures or games were written, seconds since 1970. Games come into the write-ahead log
    first, and only at times into the store itself. An empty log is of somebody who looked."""
    log = run.games.with_name(run.games.name + "-wal")
    logs = (log,) if log.is_file() and log.stat().st_size else ()
    return max(modified(path) for path in (run.figures_log, run.games, *logs))


def has_final_figures(run: RunFolder) -> bool:
    """Whether `figures.json`, which the trainer writes at a clean end, is newer than the lines before it."""
    return run.figures.exists() and modified(run.figures) >= modified(run.figures_log)


def modified(path: Path) -> float:
    """When the file was last modified, in seconds since 1970; 0 if there is no such file."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
