"""Folders other than a run's: those that are complete or absent, temporary ones, and whether one can be
written.

A whole folder (`filled`) is filled under the name NAME.partial and renamed at the end. So a folder called
NAME is complete, and what a killed process has left can be recognised by its name. The bytes of its files are
known by their hashes. Of temporary folders (`own_folder`), the next process removes what a killed one has
left.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import tempfile
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
PREFIX = "az-"
_NEW = ".az-"
"""Prefix until the folder is locked, so that it is not mistaken for one without an owner."""
_LOCK = "owner.lock"


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
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(_locked(partial, fcntl.LOCK_NB))
            except BlockingIOError as error:
                text = f"another process is filling {partial} at the moment"
                raise Fatal(text, Exit.CONFIG) from error
            left = sorted(partial.iterdir())
            if left and partial / OURS not in left:
                raise Fatal(f"{partial} is in the way, and was not left by azplay: move it away", Exit.CONFIG)
            for path in left:
                if path.name != OURS:
                    shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
            # Only now that everything else in it is ours.
            (partial / OURS).touch()
            sync_folder(partial)
            try:
                yield partial
                # Every folder is synced before the rename that says that all is there.
                for path in sorted(partial.rglob("*")):
                    if path.is_dir():
                        sync_folder(path)
                sync_folder(partial)
                partial.rename(folder)
                sync_folder(folder.parent)
                (folder / OURS).unlink()
            except BaseException:
                # All or nothing, also when somebody presses Ctrl-C.
                shutil.rmtree(partial, ignore_errors=True)
                raise
    except OSError as error:
        where = error.filename or partial
        raise Fatal(f"{where}: {error.strerror}; nothing is left of {partial}", Exit.DISK) from error


@contextlib.contextmanager
def _locked(folder: Path, waiting: int = 0) -> Iterator[None]:
    """Lock a folder itself until the block, or the process, ends. `waiting`: LOCK_NB raises BlockingIOError
    instead of waiting."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | waiting)
        yield
    finally:
        os.close(handle)


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
        # Before the sync, so that it survives as well.
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


# ---- Temporary folders ----------------------------------------------------------------------------


@contextlib.contextmanager
def own_folder() -> Iterator[Path]:
    """Yield a folder with a short name for this process (ipc endpoints are limited in length); remove it at
    the end.

    First removes this user's folders whose process is gone: the lock in each ends with its owner. A second
    lock, on the folder itself, keeps systemd-tmpfiles from removing old sockets in it (tmpfiles.d(5)).
    """
    root = Path(tempfile.gettempdir())
    # Folders without a lock file, or of other users, are left alone.
    for path in root.glob(f"{PREFIX}*/{_LOCK}"):
        with contextlib.suppress(OSError):
            # Others may have a folder of this name in /tmp.
            if path.parent.stat().st_uid != os.getuid():
                continue
            with path.open("r+") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path.parent, ignore_errors=True)
    new = Path(tempfile.mkdtemp(prefix=_NEW, dir=root))
    with _locked(new), (new / _LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        # Under its name only once it is locked, or another start would take it for abandoned.
        folder = new.rename(root / (PREFIX + new.name.removeprefix(_NEW)))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


# ---- Can it be written? --------------------------------------------------------------------------


def compiled_code_folder() -> Path:
    """Return where `games.jit` keeps compiled code. Not imported from there, because that import fails where
    nothing can be kept."""
    return Path(os.environ.get("AZ_JIT_CACHE") or Path.home() / ".cache" / "azselfplay" / "jit")


def check_folders(own: Path, setting: str) -> None:
    """Raise Fatal(CONFIG) naming the first folder that cannot be written by a program of a run, and what to
    do: at the start, before a child process fails. A container may have a read-only root file system, and
    then only folders mounted for a purpose can be written.

    `own`: its own folder (a run's folder, a spool), which need not exist yet. `setting`: the setting that
    names it.
    """
    _check(own, f"give another folder with {setting}")
    _check(
        compiled_code_folder(),
        "compiled code is kept there: let the environment variable AZ_JIT_CACHE name another folder",
    )
    try:
        tempfile.gettempdir()
    except FileNotFoundError as error:
        text = "no folder for temporary files can be written: mount a tmpfs on /tmp, or set TMPDIR"
        raise Fatal(text, Exit.CONFIG) from error


def _check(folder: Path, what_to_do: str) -> None:
    # It need not exist yet: then the nearest folder that does must be writable.
    there = next(one for one in (folder.absolute(), *folder.absolute().parents) if one.exists())
    if there.is_dir() and os.access(there, os.W_OK | os.X_OK):
        return
    why = "is not a folder" if not there.is_dir() else "cannot be written (read-only, or not allowed)"
    below = "" if there == folder.absolute() else f" ({there} {why})"
    raise Fatal(f"{folder} {'cannot be made' if below else why}{below}: {what_to_do}", Exit.CONFIG)
