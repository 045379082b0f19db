"""Recorders of a write log: for Python's operations on files of a folder, and for SQLite's, through a VFS."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import apsw
from write_log import Cut, Named, Synced, WriteLog, Written

VFS = "az-recording"


class FileRecorder:
    """Records what is done through `open`, `pathlib` and `os` to files below a folder."""

    def __init__(self, folder: Path) -> None:
        self.log = WriteLog()
        self._root = str(folder.resolve())
        self._inodes: dict[str, int] = {}
        self._made = 0
        self._handles: dict[int, str] = {}
        self._real = {
            name: getattr(os, name) for name in ("rename", "replace", "unlink", "open", "fsync", "close")
        }

    @contextmanager
    def recording(self) -> Iterator[None]:
        with (
            mock.patch.multiple(
                os,
                rename=self._rename,
                replace=self._rename,
                unlink=self._unlink,
                open=self._os_open,
                fsync=self._fsync,
            ),
            mock.patch.object(
                Path,
                "open",
                lambda path, mode="r", *more, **named: self._file_open(path, mode, *more, **named),
            ),
            mock.patch("builtins.open", self._file_open),
        ):
            yield

    def _name(self, path: Any) -> str:
        """Return the name relative to the folder, "" for files elsewhere."""
        text = _absolute(path)
        return str(Path(text).relative_to(self._root)) if text.startswith(self._root) else ""

    def _rename(self, old: Any, new: Any, **more: Any) -> None:
        self._real["replace"](old, new, **more)
        if (name := self._name(old)) in self._inodes:  # not for a link, on which nothing depends
            self._inodes[self._name(new)] = self._inodes.pop(name)
            self.log.entries.append(Named(name, self._name(new)))

    def _unlink(self, path: Any, **more: Any) -> None:
        self._real["unlink"](path, **more)
        if (name := self._name(path)) in self._inodes:
            del self._inodes[name]
            self.log.entries.append(Named(name, ""))

    def _os_open(self, path: Any, flags: int, *more: Any, **named: Any) -> int:
        handle: int = self._real["open"](path, flags, *more, **named)
        self._handles[handle] = _absolute(path)
        return handle

    def _fsync(self, handle: int) -> None:
        self._real["fsync"](handle)
        path = str(Path(f"/proc/self/fd/{handle}").readlink())
        if path == self._root or Path(path).is_dir():
            self.log.entries.append(Synced(0))
        elif name := self._name(path):
            self.log.entries.append(Synced(self._inodes[name]))

    def _file_open(self, path: Any, mode: str = "r", *more: Any, **named: Any) -> Any:
        name = "" if isinstance(path, int) else self._name(path)
        is_new = bool(name) and not Path(path).exists()
        file = io.open(path, mode, *more, **named)  # noqa: SIM115, UP020 - `open` is patched
        if not name or not set(mode) & set("wax+"):
            return file
        if is_new:
            self._made += 1
            self._inodes[name] = self._made
            self.log.entries.append(Named("", name, self._made))
        elif "w" in mode:
            self.log.entries.append(Cut(self._inodes[name], 0))
        return _Recorded(file, self, self._inodes[name])


def _absolute(path: Any) -> str:
    """Return the absolute path without following links, because the names of files matter."""
    return str(Path(os.fspath(path)).absolute())


class _Recorded:
    """A file open for writing. Writes are noted at once, because Python's buffers do not matter in a crash of
    the machine."""

    def __init__(self, file: Any, recorder: FileRecorder, inode: int) -> None:
        self._file, self._recorder, self._inode = file, recorder, inode

    def __enter__(self) -> _Recorded:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def write(self, data: Any) -> int:
        self._file.flush()
        offset = self._file.tell()
        content = data.encode() if isinstance(data, str) else bytes(data)
        self._recorder.log.entries.append(Written(self._inode, offset, content))
        return int(self._file.write(data))


class RecordingVFS(apsw.VFS):  # type: ignore[misc]
    """SQLite's own files, with all writes and syncs recorded. There is one log at a time, `log`."""

    def __init__(self) -> None:
        super().__init__(VFS, "")
        self.log = WriteLog(names_with_files=True)
        self.inodes: dict[str, int] = {}

    def begin(self) -> WriteLog:
        """Begin a new log and return it."""
        self.log, self.inodes = WriteLog(names_with_files=True), {}
        return self.log

    def xOpen(self, name: Any, flags: Any) -> Any:  # noqa: N802 (SQLite's name)
        return _RecordedDatabase(self, name, flags)

    def xDelete(self, name: str, sync_folder: bool) -> None:  # noqa: N802
        super().xDelete(name, sync_folder)
        short = Path(name).name
        if self.inodes.pop(short, 0):
            self.log.entries += [Named(short, ""), *([Synced(0)] if sync_folder else [])]

    def inode(self, name: str) -> int:
        short = Path(name).name
        if short not in self.inodes:
            self.inodes[short] = len(self.inodes) + 1
            self.log.entries.append(Named("", short, self.inodes[short]))
        return self.inodes[short]


class _RecordedDatabase(apsw.VFSFile):  # type: ignore[misc]
    def __init__(self, vfs: RecordingVFS, name: Any, flags: Any) -> None:
        self._vfs = vfs
        self._inode = vfs.inode(name.filename() if isinstance(name, apsw.URIFilename) else name)
        super().__init__("", name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        self._vfs.log.entries.append(Written(self._inode, offset, bytes(data)))
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:  # noqa: N802
        self._vfs.log.entries.append(Synced(self._inode))
        super().xSync(flags)

    def xTruncate(self, size: int) -> None:  # noqa: N802
        self._vfs.log.entries.append(Cut(self._inode, size))
        super().xTruncate(size)
