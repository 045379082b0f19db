"""Finished games on disk until the trainer has them: one file a game, named by its uid.

A game exists from the moment its file is renamed into place and the folder is synced; before that it is
a `.tmp` file that the next start removes. Everything here blocks: call it in a thread. One worker
process owns a folder (`spool_folders`), so there is one caller at a time.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from protocol.messages import MAX_RECORD
from protocol.records import BadRecord, from_bytes, sha256

SUFFIX = ".game"
REJECTED = "rejected"
"""Folder for games that the trainer refused or that cannot be read, each with a `.reason` file."""

MAX_REJECTED = 1000
"""Games kept there; beyond that the oldest are removed."""
MAX_GAMES = 20_000
"""Games in one worker's spool; at some kB a game the bytes below are seldom what fills it."""
MAX_BYTES = 512 * 1024 * 1024
"""Bytes in one worker's spool."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class SpooledGame:
    """A record as it is sent."""

    uid: bytes
    sha256: bytes
    data: bytes


def sync_folder(folder: Path) -> None:
    """Make renames and removals in `folder` survive a power loss."""
    _sync(folder, os.O_RDONLY | os.O_DIRECTORY)


def _sync(path: Path, flags: int) -> None:
    handle = os.open(path, flags)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class Spool:
    """The games of one worker process that the trainer has not acknowledged yet.

    The bounds say when to stop starting games (`full`); games then in progress are still taken, since
    a finished game is never thrown away. Every method may raise OSError.
    """

    def __init__(self, folder: Path, max_games: int = MAX_GAMES, max_bytes: int = MAX_BYTES) -> None:
        self.folder = folder
        self.games = 0
        self.bytes = 0
        self.rejected = 0
        """Games set aside since this object was made."""
        self._max_games = max_games
        self._max_bytes = max_bytes

    @property
    def full(self) -> bool:
        return self.games >= self._max_games or self.bytes >= self._max_bytes

    def open(self) -> list[bytes]:
        """Uids of the games a previous run left, oldest first. Removes half-written files, sets aside damaged
        ones; a file that the disk does not let us read now stays among the others."""
        (self.folder / REJECTED).mkdir(parents=True, exist_ok=True)
        self.games = self.bytes = 0
        for path in self.folder.glob("*.tmp"):
            path.unlink()
        found = []
        for path in sorted(self.folder.glob(f"*{SUFFIX}"), key=lambda path: path.stat().st_mtime_ns):
            reason = self._fault_now(path)
            if reason:
                self._set_aside(path, reason)
                continue
            self._count(1, path.stat().st_size)
            found.append(bytes.fromhex(path.stem))
        return found

    def write(self, records: Sequence[tuple[bytes, bytes]]) -> None:
        """Put `(uid, data)` on disk for good: when this returns, a crash loses none of them."""
        temporaries = [self.folder / f"{uid.hex()}.tmp" for uid, _ in records]
        for temporary, (_, data) in zip(temporaries, records, strict=True):
            temporary.write_bytes(data)
        # After all are written: the first sync then does most of the work of the others.
        for temporary in temporaries:
            _sync(temporary, os.O_RDONLY)
        for temporary, (uid, data) in zip(temporaries, records, strict=True):
            if not self._path(uid).exists():
                self._count(1, len(data))
            temporary.rename(self._path(uid))
        sync_folder(self.folder)

    def read(self, uid: bytes) -> SpooledGame | None:
        """The game as it is to be sent; None when there is none that can be read (it is set aside)."""
        path = self._path(uid)
        if not path.exists():
            return None
        reason = self._fault(path)
        if reason:
            self._count(-1, -path.stat().st_size)
            self._set_aside(path, reason)
            return None
        data = path.read_bytes()
        return SpooledGame(uid, sha256(data), data)

    def delete(self, uid: bytes) -> None:
        """The trainer has it. No sync: a file that comes back after a crash is sent again and counts once."""
        path = self._path(uid)
        if path.exists():
            self._count(-1, -path.stat().st_size)
            path.unlink()

    def set_aside(self, uid: bytes, reason: str) -> None:
        """The trainer will never take it: keep it for people in `rejected/`, with the reason."""
        path = self._path(uid)
        if path.exists():
            self._count(-1, -path.stat().st_size)
            self._set_aside(path, reason)

    def _path(self, uid: bytes) -> Path:
        return self.folder / f"{uid.hex()}{SUFFIX}"

    def _count(self, games: int, size: int) -> None:
        self.games += games
        self.bytes += size

    def _fault(self, path: Path) -> str:
        """What is wrong with a file, "" if nothing is."""
        if path.stat().st_size > MAX_RECORD:
            return f"larger than {MAX_RECORD} bytes"
        try:
            record = from_bytes(path.read_bytes())
        except BadRecord as error:
            return str(error)
        return "" if record.uid.hex() == path.stem else f"holds game {record.uid.hex()}"

    def _fault_now(self, path: Path) -> str:
        try:
            return self._fault(path)
        except OSError as error:
            log.error("game %s cannot be read now, and is offered later: %s", path.stem, error)
            return ""

    def _set_aside(self, path: Path, reason: str) -> None:
        target = path.parent / REJECTED / path.name
        target.with_suffix(".reason").write_text(reason + "\n")
        path.rename(target)
        self.rejected += 1
        kept = sorted(target.parent.glob(f"*{SUFFIX}"), key=lambda path: path.stat().st_ctime_ns)
        for old in kept[:-MAX_REJECTED]:
            old.unlink()
            old.with_suffix(".reason").unlink(missing_ok=True)
        log.warning("game %s set aside in %s: %s", path.stem, target.parent, reason)
