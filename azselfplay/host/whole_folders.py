"""Folders that are either complete or absent, and files in them whose bytes are known by their hashes.

A folder is filled under the name NAME.partial and renamed at the end. So a folder called NAME is complete,
and what a killed process has left can be recognised by its name.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from azselfplay.host.exits import Exit, Fatal
from azselfplay.host.reading import open_regular, read_text
from azselfplay.host.runs import PARTIAL, sync_folder

OURS = "FILLED_BY_AZPLAY"
"""A file in NAME.partial that marks its content as ours, so that we may remove it. It is deleted after the
renaming; a process killed in between leaves it behind, where it means nothing."""
SUMS = "SHA256SUMS"
"""The hashes of all other files of a folder, as `sha256sum -c SHA256SUMS` reads them."""
_BLOCK = 1 << 20


@contextlib.contextmanager
def filled(folder: Path) -> Iterator[Path]:
    """Yield a new folder to put files in. At the end of the block it is made durable and renamed to `folder`.

    If the block raises, everything in it is removed. What a killed process left under that name is removed
    first. Raises Fatal(CONFIG) if `folder` exists, or if another process is filling it; Fatal(DISK) if
    writing fails.
    """
    partial = folder.with_name(folder.name + PARTIAL)
    if folder.exists() or folder.is_symlink():
        raise Fatal(f"{folder} exists already and is not overwritten: choose another name", Exit.CONFIG)
    try:
        partial.mkdir(parents=True, exist_ok=True)
        with _claimed(partial):
            _begin(partial)
            try:
                yield partial
                _finish(partial, folder)
            except BaseException:
                shutil.rmtree(partial, ignore_errors=True)
                raise
    except OSError as error:
        where = error.filename or partial
        raise Fatal(f"{where}: {error.strerror}; nothing is left of {partial}", Exit.DISK) from error


@contextlib.contextmanager
def _claimed(partial: Path) -> Iterator[None]:
    """Ensure that only one process fills a folder. The claim ends with the process."""
    handle = os.open(partial, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise Fatal(f"another process is filling {partial} at the moment", Exit.CONFIG) from error
        yield
    finally:
        os.close(handle)


def _begin(partial: Path) -> None:
    left = sorted(partial.iterdir())
    if left and partial / OURS not in left:
        raise Fatal(f"{partial} is in the way, and was not left by azplay: move it away", Exit.CONFIG)
    for path in left:
        if path.name != OURS:
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    (partial / OURS).touch()
    sync_folder(partial)


def _finish(partial: Path, folder: Path) -> None:
    for path in sorted(partial.rglob("*")):
        if path.is_dir():
            sync_folder(path)
    sync_folder(partial)
    partial.rename(folder)
    sync_folder(folder.parent)
    (folder / OURS).unlink()


def is_unfinished(folder: Path) -> bool:
    """Return whether the folder was not filled completely."""
    return folder.name.endswith(PARTIAL) or ((folder / OURS).exists() and not (folder / SUMS).exists())


def copy_file(source: Path, target: Path) -> str:
    """Copy a file so that it survives a power loss, with its modification time.

    Returns the SHA-256 of the bytes that were read, in hex. Raises OSError.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256()
    with open_regular(source) as old, target.open("wb") as new:
        about = os.fstat(old.fileno())
        while block := old.read(_BLOCK):
            digest.update(block)
            new.write(block)
        new.flush()
        os.utime(new.fileno(), ns=(about.st_atime_ns, about.st_mtime_ns))
        os.fsync(new.fileno())
    return digest.hexdigest()


def hash_file(path: Path, *, sync: bool = False) -> str:
    """Return the SHA-256 of a file in hex. `sync`: make it survive a power loss, because another program
    wrote it."""
    with open_regular(path) as file:
        if sync:
            os.fsync(file.fileno())
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_file(target: Path, data: bytes) -> str:
    """Write a file of a folder that is being filled. Returns its SHA-256 in hex. Raises OSError."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    return hashlib.sha256(data).hexdigest()


def write_sums(folder: Path, sums: Mapping[str, str]) -> None:
    """Write the hashes. `sums`: SHA-256 in hex by path below `folder`. Raises OSError."""
    lines = "".join(f"{sums[path]}  {path}\n" for path in sorted(sums))
    write_file(folder / SUMS, lines.encode())


def read_sums(folder: Path) -> dict[str, str]:
    """Return the SHA-256 in hex by path. Raises Fatal(BAD_DATA) unless exactly these files are in
    `folder`."""
    sums: dict[str, str] = {}
    try:
        for line in read_text(folder / SUMS).splitlines():
            digest, _, path = line.partition("  ")
            sums[path] = digest
    except (OSError, ValueError) as error:
        raise Fatal(
            f"{folder / SUMS} cannot be read ({error}): this is not a complete backup", Exit.BAD_DATA
        ) from None
    there = {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()} - {SUMS, OURS}
    if there != set(sums):
        missing, more = sorted(set(sums) - there), sorted(there - set(sums))
        parts = [f"{len(missing)} files are missing, such as {missing[0]!r}"] if missing else []
        parts += [f"{len(more)} files do not belong to it, such as {more[0]!r}"] if more else []
        raise Fatal(f"{folder} is damaged: {' and '.join(parts)}", Exit.BAD_DATA)
    return sums
