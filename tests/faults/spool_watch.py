"""The ledger of a real azclient: which games it finished, and which of them were acknowledged, as the kernel
reports it for its spool (inotify).

A game is finished when its file gets its name, and acknowledged when that file is deleted: the client moves
refused games to another folder.
"""

from __future__ import annotations

import ctypes
import os
import select
import struct
import threading
from pathlib import Path

from client.spool import SUFFIX

IN_MOVED_TO, IN_CREATE, IN_DELETE = 0x80, 0x100, 0x200
IN_OVERFLOW, IN_IS_FOLDER = 0x4000, 0x4000_0000
EVENT = struct.Struct("iIII")
_libc = ctypes.CDLL(None, use_errno=True)


class SpoolWatch:
    """Watches all folders below a spool's root, also those that are created later.

    A thread of its own reads the kernel's events. A reader that is late would begin to watch a worker's new
    folder when games have already come and gone in it.
    """

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
        self._lock = threading.Lock()
        self._fault: Exception | None = None
        self._wake, self._end = os.pipe()
        self._thread = threading.Thread(target=self._follow, name="spool-watch", daemon=True)
        self._thread.start()

    def _follow(self) -> None:
        """Read events until `close`."""
        poll = select.poll()
        for handle in (self._inotify, self._wake):
            poll.register(handle, select.POLLIN | select.POLLHUP)
        while self._wake not in dict(poll.poll()):
            try:
                self._read()
            except Exception as fault:
                self._fault = fault
                return

    def _watch(self, folder: Path) -> None:
        kinds = IN_CREATE | IN_MOVED_TO | IN_DELETE
        number = _libc.inotify_add_watch(self._inotify, os.fsencode(folder), kinds)
        if number < 0:
            raise OSError(ctypes.get_errno(), f"inotify: {folder}")
        if number in self._folders:
            return
        self._folders[number] = folder
        for path in folder.iterdir():  # files from before the watch began
            self._came(path, is_folder=path.is_dir())

    def look(self) -> None:
        """Bring the ledger up to date with everything that has happened. Raises AssertionError if events were
        lost."""
        if self._fault is not None:
            raise AssertionError(f"the watch of {self._root} ended") from self._fault
        self._read()

    def _read(self) -> None:
        with self._lock:
            while True:
                try:
                    self._take(os.read(self._inotify, 1 << 16))
                except BlockingIOError:
                    return

    def _take(self, events: bytes) -> None:
        at = 0
        while at < len(events):
            number, kinds, _, length = EVENT.unpack_from(events, at)
            at += EVENT.size + length
            assert not kinds & IN_OVERFLOW, "the kernel dropped events"
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
            self._watch(path)  # the folder of a run or of a worker, but not the one of games set aside
        elif path.suffix == SUFFIX:
            self.finished.add(path.stem)

    def close(self) -> None:
        os.close(self._end)
        self._thread.join()
        os.close(self._wake)
        os.close(self._inotify)
