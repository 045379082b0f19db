"""A bound of the kernel on the memory of one process (a cgroup of version 1 or 2), which ends it beyond."""

from __future__ import annotations

import errno
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

ROOTS = (Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup"))
LIMITS = ("memory.limit_in_bytes", "memory.max")
PATIENCE = 60.0
"""Seconds until a group without processes can be removed."""
TIGHT = 1 << 20
"""Bytes: what a process may take beyond what it has when it is put in. No part can work with so little."""


class Unavailable(Exception):
    """This machine does not let us bound the memory of a process; the text says why."""


@contextmanager
def memory_limit(pid: int, size: int = TIGHT) -> Iterator[None]:
    """For a block, this process may have so many bytes more. Raises Unavailable."""
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
    """Whoever is left goes back to where it may live. The dead stay until their parents have heard of it."""
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
