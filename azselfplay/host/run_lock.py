"""The lock of a run folder: held by one process. Afterwards it tells how that process ended.

The file is empty after a clean end. While the lock is held, and after a kill, it names its holder's machine.
"""

from __future__ import annotations

import contextlib
import fcntl
import socket
import time
from enum import Enum
from functools import cache
from pathlib import Path
from types import TracebackType

from azselfplay.host.reading import read_bytes

TRIES, TRY_AGAIN = 5, 0.05
"""How often a lock that is held is tried, and the seconds between."""


class Left(Enum):
    """What a lock that no process here holds tells of its last holder."""

    ENDED = "ended"
    """The holder ended cleanly."""
    KILLED = "killed"
    """The holder ran on this machine and was killed."""
    ELSEWHERE = "elsewhere"
    """The holder runs, or ran, where its lock cannot be seen: on another machine, or in another container."""


class RunLock:
    """A lock that this process holds until `close`, or until it ends in any way."""

    def __init__(self, path: Path) -> None:
        """Raises BlockingIOError if another process holds it, OSError if the file cannot be made."""
        self._file = path.open("a")
        try:
            self._take()
            self._write(here())
        except BaseException:
            self._file.close()
            raise

    def _take(self) -> None:
        """Whoever looks whether the lock is held has it for a moment (`host.runs.is_locked`), so one that
        is held is tried again."""
        for _ in range(TRIES - 1):
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            time.sleep(TRY_AGAIN)
        fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def close(self) -> None:
        """End cleanly. A second call does nothing."""
        if not self._file.closed:
            self._write("")
            self._file.close()

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError):  # on a full disk the lock still holds
            self._file.truncate(0)
            self._file.write(text)
            self._file.flush()

    def __enter__(self) -> RunLock:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def left_by(path: Path) -> Left | None:
    """Return what the lock file of a process that no longer holds it tells; None if there is none."""
    try:
        holder = read_bytes(path).decode(errors="replace")
    except OSError:
        return None
    if not holder:
        return Left.ENDED
    return Left.KILLED if holder == here() else Left.ELSEWHERE


@cache
def here() -> str:
    """Return an identity of this machine since its last start, and of its process namespace, which differs in
    a container. Where the kernel does not give one, the machine's name."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {Path('/proc/self/ns/pid').stat().st_ino}"
    except OSError:
        return socket.gethostname()
