"""Appends to a file that must stay readable even if the disk fills up in the middle of a write."""

from __future__ import annotations

from pathlib import Path


def append_whole(path: Path, data: bytes) -> None:
    """Append all of `data`, or nothing of it. Raises OSError when it cannot be written.

    Only for files with one writer. No fsync: a crash of the machine may lose what was written last.
    """
    with path.open("ab", buffering=0) as file:
        before = file.tell()
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[file.write(rest) :]
        except OSError:
            file.truncate(before)
            raise
