"""Folders other than run folders: folders that are either complete or absent, temporary folders, and checks
whether a folder can be written.

`filled` fills a folder under the name NAME.partial and renames it at the end. So a folder called NAME is
complete, and the name shows what a killed process has left behind. Hashes verify the bytes of its files. A
temporary folder (`own_folder`) that a killed process has left is removed by the next process.
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

from azselfplay.games.home import home
from azselfplay.host.exits import Exit, Fatal, as_fatal
from azselfplay.host.reading import open_regular, read_text
from azselfplay.host.runs import PARTIAL, sync_folder

OURS = "FILLED_BY_AZPLAY"
"""A file in NAME.partial that marks its content as ours, so that we may remove it. It is deleted after the
renaming. A process that is killed in between leaves the file in NAME, where it does no harm."""
SUMS = "SHA256SUMS"
"""The hashes of all other files of a folder, as `sha256sum -c SHA256SUMS` reads them."""
_BLOCK = 1 << 20
PREFIX = "az-"
_NEW = ".az-"
"""Prefix of a temporary folder until it is locked, so that no other process takes it for abandoned."""
_LOCK = "owner.lock"


@contextlib.contextmanager
def filled(folder: Path) -> Iterator[Path]:
    """Yield a new folder to put files in. At the end of the block, it is synced to disk and renamed to
    `folder`.

    If the block raises, the new folder is removed. Anything that a killed process left under the same name is
    removed first. Raises Fatal(CONFIG) if `folder` exists, or if another process is filling it; Fatal(DISK)
    if writing fails.
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
            # The folder is marked as ours only now, when it holds nothing that belongs to somebody else.
            (partial / OURS).touch()
            sync_folder(partial)
            try:
                yield partial
                # Every folder is synced before the rename, because the new name says that everything is
                # there.
                for path in sorted(partial.rglob("*")):
                    if path.is_dir():
                        sync_folder(path)
                sync_folder(partial)
                partial.rename(folder)
                sync_folder(folder.parent)
                (folder / OURS).unlink()
            except BaseException:
                # The folder is complete or absent, also when somebody presses Ctrl-C.
                shutil.rmtree(partial, ignore_errors=True)
                raise
    except OSError as error:
        where = error.filename or partial
        raise Fatal(f"{where}: {error.strerror}; nothing is left of {partial}", Exit.DISK) from error


@contextlib.contextmanager
def _locked(folder: Path, waiting: int = 0) -> Iterator[None]:
    """Lock the folder itself until the block or the process ends. With `waiting` = LOCK_NB, raises
    BlockingIOError instead of waiting."""
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
    """Copy a file with its modification time, so that the copy survives a power loss.

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
        # The times are set before the sync, so that they survive a power loss as well.
        os.utime(new.fileno(), ns=(about.st_atime_ns, about.st_mtime_ns))
        os.fsync(new.fileno())
    return digest.hexdigest()


def hash_file(path: Path, *, sync: bool = False) -> str:
    """Return the SHA-256 of a file in hex. `sync`: also make the file survive a power loss, for a file that
    another program wrote."""
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
    """Write the file of hashes. `sums`: SHA-256 in hex by path below `folder`. Raises OSError."""
    lines = "".join(f"{sums[path]}  {path}\n" for path in sorted(sums))
    write_file(folder / SUMS, lines.encode())


def read_sums(folder: Path) -> dict[str, str]:
    """Return the recorded SHA-256 in hex by path. Raises Fatal(BAD_DATA) unless `folder` holds exactly the
    files on record."""
    sums: dict[str, str] = {}
    what, so = f"{folder / SUMS} cannot be read (", "): this is not a complete backup"
    with as_fatal((OSError, ValueError), Exit.BAD_DATA, what, so):
        for line in read_text(folder / SUMS).splitlines():
            digest, _, path = line.partition("  ")
            sums[path] = digest
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
    """Yield a temporary folder for this process; remove it at the end. Its name is short because ipc
    endpoints are limited in length.

    First removes this user's folders whose process is gone: each folder holds a lock file, and the lock ends
    with its owner. A second lock, on the folder itself, keeps systemd-tmpfiles from removing old sockets in
    it (tmpfiles.d(5)).
    """
    root = Path(tempfile.gettempdir())
    # Folders without a lock file, or of other users, are left alone.
    for path in root.glob(f"{PREFIX}*/{_LOCK}"):
        with contextlib.suppress(OSError):
            # Other users may have folders with our prefix in /tmp.
            if path.parent.stat().st_uid != os.getuid():
                continue
            with path.open("r+") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path.parent, ignore_errors=True)
    new = Path(tempfile.mkdtemp(prefix=_NEW, dir=root))
    with _locked(new), (new / _LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        # The folder gets its final name only once it is locked; otherwise another process that starts would
        # take it for abandoned.
        folder = new.rename(root / (PREFIX + new.name.removeprefix(_NEW)))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


# ---- Can it be written? --------------------------------------------------------------------------


def compiled_code_folder() -> Path:
    """Return where `games.jit` keeps compiled code. The path is not imported from `games.jit`, because that
    import fails if the folder cannot be written."""
    return Path(os.environ.get("AZ_JIT_CACHE") or home() / ".cache" / "azselfplay" / "jit")


def check_folders(own: Path, setting: str) -> None:
    """Raise Fatal(CONFIG) if a program of a run cannot write to one of its folders; the error names the first
    such folder and says what to do. Called at the start, before a child process fails. A container may have a
    read-only root file system, where only folders that were mounted on purpose can be written.

    `own`: the program's own folder (a run's folder, a spool), which need not exist yet. `setting`: the
    setting that names this folder.
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
    # If the folder does not exist yet, its nearest existing parent must be writable.
    there = next(one for one in (folder.absolute(), *folder.absolute().parents) if one.exists())
    if there.is_dir() and os.access(there, os.W_OK | os.X_OK):
        return
    why = "is not a folder" if not there.is_dir() else "cannot be written (read-only, or not allowed)"
    below = "" if there == folder.absolute() else f" ({there} {why})"
    raise Fatal(f"{folder} {'cannot be made' if below else why}{below}: {what_to_do}", Exit.CONFIG)
