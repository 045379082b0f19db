"""Which worker process owns which spool folder, and what happens to folders without an owner.

ROOT/RUN+IDENTITY/worker-0, worker-1, ...: each has one owner, who holds a lock that dies with the process.

Each run has its own folder, told apart by its identity from others of the same name: games of one run are
never sent to another. The first worker takes over the games of folders without an owner, so starting fewer
workers than last time leaves nothing behind. It also takes over those of the same run under another name (it
was moved, or restored from a backup).
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import re
from pathlib import Path
from typing import IO

from client.spool import KEPT, SUFFIX, sync_folder
from runtime.crash_points import reach
from runtime.exits import Exit, Fatal

MARK = "+"
"""Comes before the identity in a folder's name; no run's name contains it."""
IDENTITY_DIGITS = 12

log = logging.getLogger(__name__)


class SpoolFolder:
    """A claimed folder; the claim ends with `release` or with the process."""

    def __init__(self, path: Path, lock: IO[str]) -> None:
        self.path = path
        self._lock = lock

    def release(self) -> None:
        self._lock.close()


def run_folder(root: Path, game: str, run: str, identity: bytes) -> Path:
    """Return the folder of one run, named so that no run name can point outside `root`."""
    name = re.sub(r"[^A-Za-z0-9_-]", "_", f"{game}-{run}")
    return root / f"{name}{MARK}{identity.hex()[:IDENTITY_DIGITS]}"


def claim(folder: Path, index: int) -> SpoolFolder:
    """Create and lock worker `index`'s folder. Blocks while another worker starts.

    Raises Fatal(TRY_AGAIN) when another process has it, which may be about to end; Fatal(DISK) when it
    cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "starting.lock").open("w") as gate:
            # One worker starts at a time: taking over a folder and claiming it must not overlap.
            fcntl.flock(gate, fcntl.LOCK_EX)
            path = folder / f"worker-{index}"
            lock = _try_lock(path)
            if lock is None:
                raise Fatal(
                    f"the spool folder {path} is in use by another process; end that process, or give "
                    "this one another folder with --spool",
                    Exit.TRY_AGAIN,
                )
            if index == 0:
                _take_over(folder, path)
                name, _, identity = folder.name.partition(MARK)
                _follow(folder, identity, path)
                _name_others(folder, name)
            return SpoolFolder(path, lock)
    except OSError as error:
        raise Fatal(
            f"cannot use the spool folder {folder}: {error.strerror}; free some space or give another "
            "folder with --spool",
            Exit.DISK,
        ) from error


def _try_lock(path: Path) -> IO[str] | None:
    path.mkdir(exist_ok=True)
    lock = (path / "owner.lock").open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        return None
    return lock


def _take_over(folder: Path, mine: Path) -> None:
    for other in sorted(folder.glob("worker-*")):
        lock = None if other == mine else _try_lock(other)
        if lock is None:
            continue
        with lock:
            left = sorted(other.glob(f"*{SUFFIX}"))
            for path in left:
                path.rename(mine / path.name)
                reach("spool_folders.taken_over")
            _take_over_kept(other / KEPT, mine / KEPT)
        if left:
            sync_folder(mine)
            log.info("took over %d games that %s left", len(left), other)


def _follow(folder: Path, identity: str, mine: Path) -> None:
    """Take over the games of the same run under other names. Where a worker starts at this moment, the run is
    also served under that name, and its games stay."""
    for other in sorted(folder.parent.glob(f"*{MARK}{identity}")):
        if other == folder:
            continue
        with (other / "starting.lock").open("w") as gate, contextlib.suppress(BlockingIOError):
            fcntl.flock(gate, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _take_over(other, mine)


def _take_over_kept(theirs: Path, mine: Path) -> None:
    """Move the games before their reasons, because a game without its reason is only offered once more."""
    mine.mkdir(exist_ok=True)
    for path in sorted(theirs.glob("*")):
        path.rename(mine / path.name)


def _name_others(folder: Path, name: str) -> None:
    """Log which games of other runs of this name wait here: they are not lost, and not sent to this run."""
    for other in sorted(folder.parent.glob(f"{name}{MARK}*")):
        found = (path for part in ("", f"{KEPT}/") for path in other.glob(f"worker-*/{part}*{SUFFIX}"))
        games = 0 if other == folder else sum(1 for _ in found)
        if games:
            log.warning(
                "%d games in %s were played for another run of this name: they are kept, and sent when that "
                "run is served again",
                games,
                other,
            )
