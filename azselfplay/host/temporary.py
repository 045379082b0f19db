"""Temporary folders: what a killed process leaves behind, the next one removes."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

PREFIX = "az-"
_NEW = ".az-"
"""Prefix until the folder is locked, so that it is not mistaken for one without an owner."""
_LOCK = "owner.lock"


@contextlib.contextmanager
def own_folder() -> Iterator[Path]:
    """Yield a folder with a short name for this process (ipc endpoints are limited in length); remove it at
    the end.

    First removes this user's folders whose process is gone: the lock in each ends with its owner. A second
    lock, on the folder itself, keeps systemd-tmpfiles from removing old sockets in it (tmpfiles.d(5)).
    """
    root = Path(tempfile.gettempdir())
    _sweep(root)
    new = Path(tempfile.mkdtemp(prefix=_NEW, dir=root))
    with _locked(new), (new / _LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        folder = new.rename(root / (PREFIX + new.name.removeprefix(_NEW)))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _sweep(root: Path) -> None:
    """Remove folders without an owner. Those without a lock file, or of other users, are left alone."""
    for path in root.glob(f"{PREFIX}*/{_LOCK}"):
        with contextlib.suppress(OSError):
            if path.parent.stat().st_uid != os.getuid():
                continue
            with path.open("r+") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path.parent, ignore_errors=True)
