"""The ledger of a real azclient: which games it finished, and which of them were acknowledged, as the kernel
tells of its spool (inotify).

A game is finished when its file gets its name, and acknowledged when that file is deleted: the client keeps
what is refused, in another folder.
"""

from __future__ import annotations

import ctypes
import os
import struct
from pathlib import Path

from client.spool import SUFFIX

IN_MOVED_TO, IN_CREATE, IN_DELETE = 0x80, 0x100, 0x200
IN_OVERFLOW, IN_IS_FOLDER = 0x4000, 0x4000_0000
EVENT = struct.Struct("iIII")
_libc = ctypes.CDLL(None, use_errno=True)


class SpoolWatch:
    """Watches all folders below a spool's root, those that come later too. `look` brings the ledger up to
    date: call it often, as the kernel keeps 16,384 events."""

    def __init__(self, root: Path) -> None:
        self.finished: set[str] = set()
        self.acknowledged: set[str] = set()
        self._folders: dict[int, Path] = {}
        self._inotify = _libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._inotify < 0:
            raise OSError(ctypes.get_errno(), "inotify")
        root.mkdir(parents=True, exist_ok=True)
        self._root = root
        self._watch(root)

    def _watch(self, folder: Path) -> None:
        kinds = IN_CREATE | IN_MOVED_TO | IN_DELETE
        number = _libc.inotify_add_watch(self._inotify, os.fsencode(folder), kinds)
        if number < 0:
            raise OSError(ctypes.get_errno(), f"inotify: {folder}")
        if number in self._folders:
            return
        self._folders[number] = folder
        for path in folder.iterdir():  # what came before the kernel watched
            self._came(path, is_folder=path.is_dir())

    def look(self) -> None:
        """AssertionError when events were lost."""
        while True:
            try:
                events = os.read(self._inotify, 1 << 16)
            except BlockingIOError:
                return
            at = 0
            while at < len(events):
                number, kinds, _, length = EVENT.unpack_from(events, at)
                at += EVENT.size + length
                assert not kinds & IN_OVERFLOW, "the kernel dropped events: look more often"
                name = events[at - length : at].rstrip(b"\0").decode()
                self._on_event(self._folders[number] / name, kinds)

    def _on_event(self, path: Path, kinds: int) -> None:
        if kinds & IN_DELETE:
            if path.suffix == SUFFIX:
                self.acknowledged.add(path.stem)
        else:
            self._came(path, is_folder=bool(kinds & IN_IS_FOLDER))

    def _came(self, path: Path, *, is_folder: bool) -> None:
        if is_folder and path.parent in (self._root, *self._root.iterdir()):
            self._watch(path)  # of a run, or of a worker; not what a worker has set aside
        elif path.suffix == SUFFIX:
            self.finished.add(path.stem)

    def close(self) -> None:
        os.close(self._inotify)
