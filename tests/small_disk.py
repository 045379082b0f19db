"""A small real file system that can be filled up: a tmpfs, mounted while a test runs."""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

BLOCK = 1 << 16


class SmallDisk:
    """A mounted file system. `fill` leaves not one free byte, and `free` undoes that."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._ballast = path / "ballast"

    def fill(self) -> None:
        """Fill it; call again if something may have been deleted since."""
        handle = os.open(self._ballast, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            for size in (BLOCK, 4096, 1):
                with contextlib.suppress(OSError):
                    while True:
                        os.write(handle, b"x" * size)
        finally:
            os.close(handle)

    def free(self) -> None:
        self._ballast.unlink()


@contextlib.contextmanager
def small_disk(path: Path, megabytes: int) -> Iterator[SmallDisk]:
    """Mount a small file system; skip the test where mounting is not allowed."""
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "small-disk", str(path)]
    try:
        done = subprocess.run(mount, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no mount command")
    if done.returncode:
        pytest.skip(f"a file system of its own needs the right to mount: {done.stderr.strip()}")
    try:
        yield SmallDisk(path)
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)
