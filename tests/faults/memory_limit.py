"""A kernel limit on the memory of one process (a cgroup of version 1 or 2), which kills it when exceeded."""

from __future__ import annotations

import errno
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from unavailable import Unavailable

ROOTS = (Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup"))
LIMITS = ("memory.limit_in_bytes", "memory.max")
PATIENCE = 60.0
"""Seconds until a group without processes can be removed."""
TIGHT = 4096
"""Bytes that a process may allocate after the limit is set: one page. A part that works steadily reuses its
memory, and may never ask for a megabyte more."""


@contextmanager
def memory_limit(pid: int, size: int = TIGHT) -> Iterator[None]:
    """Limit this process to `size` more bytes during the block. Raises Unavailable."""
    folder = None
    try:
        root = next((one for one in ROOTS if (one / "cgroup.procs").exists()), None)
        if root is None:
            raise Unavailable("no cgroup file system is mounted")
        folder = root / f"az-faults-{uuid.uuid4().hex[:8]}"
        folder.mkdir()
        limit = next((folder / name for name in LIMITS if (folder / name).exists()), None)
        if limit is None:
            raise Unavailable(f"cgroups in {root} do not bound memory")
        limit.write_text(str(size))
        (folder / "cgroup.procs").write_text(str(pid))
        yield
    except OSError as error:
        raise Unavailable(f"a cgroup cannot be made here: {error}") from error
    finally:
        if folder is not None and folder.exists():
            _remove(folder)


def _remove(folder: Path) -> None:
    """Remove the group, and move its remaining processes back. Dead ones stay until their parents have reaped
    them."""
    for pid in (folder / "cgroup.procs").read_text().split():
        with suppress(ProcessLookupError):
            (folder.parent / "cgroup.procs").write_text(pid)
    deadline = time.monotonic() + PATIENCE
    while folder.exists():
        try:
            folder.rmdir()
        except OSError as error:
            if error.errno != errno.EBUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.05)
