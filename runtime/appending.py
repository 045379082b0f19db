"""Adding to a file that must stay readable when the disk is full in the middle of it."""

from __future__ import annotations

from pathlib import Path


def append_whole(path: Path, data: bytes) -> None:
    """Append all of `data` in one go, or nothing of it. Raises OSError when the disk does not take it.

    Only for files with one writer. No fsync: a crash of the machine may cost what was written last.
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
