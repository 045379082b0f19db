"""Finished games on disk until the trainer has them: one file per game, named by its uid.

A game exists from the moment its file is renamed into place and the folder is synced. Before that it is a
`.tmp` file that the next start removes. Everything here blocks: call it in a thread.

The folders are ROOT/RUN+IDENTITY/worker-0, worker-1, ... Each has one owner, which holds a lock that ends
with its process (`claim`). Each run has its own folder, and the identity tells runs of the same name apart:
games of one run are never sent to another. The first worker takes over the games of folders that will have no
owner, so starting fewer workers than last time leaves nothing behind. It also takes over games of the same
run under another name (the run was moved, or restored from a backup).

Games that the trainer refuses for their settings, run or weights are kept (`Terms`, `fits`): settings may be
changed back, and a restored backup of the weights may catch up. They are valid work, so none of them is ever
deleted. They count as part of the spool, so a worker whose games are always refused stops playing in the end.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import logging
import os
import re
from collections.abc import Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import msgspec

from azselfplay.host.exits import Exit, Fatal
from azselfplay.host.runs import reach, sync_folder
from protocol.errors import Code
from protocol.messages import MAX_RECORD, Welcome
from protocol.records import BadRecord, from_bytes, sha256

SUFFIX = ".game"
REJECTED = "rejected"
"""Folder for games that break the rules or cannot be read, each with a `.reason` file."""
KEPT = "kept"
"""Folder for games refused because of their settings, run or weights (`fits`), each with a `.reason` file."""
MAX_REJECTED = 1000
"""Most games in `rejected`; beyond that the oldest are removed. Games in `kept` are never removed."""
MAX_GAMES = 20_000
"""Most games in one worker's spool; at a few kB per game, the limit in bytes is rarely reached first."""
MAX_BYTES = 512 * 1024 * 1024
"""Most bytes in one worker's spool. Both limits apply to waiting games and games in `kept` together."""
MARK = "+"
"""Stands before the identity in a folder's name; the run's part of the name never contains it."""
IDENTITY_DIGITS = 12
CODES = frozenset({Code.WRONG_RUN.value, Code.WRONG_SETTINGS.value, Code.UNKNOWN_VERSION.value})
"""Refusals after which a game is kept."""
_REFUSED_UNDER = "refused under "
"""Comes before the fingerprint of the settings in a note."""
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class SpooledGame:
    """A game's record in the form in which it is sent."""

    uid: bytes
    sha256: bytes
    data: bytes


class Spool:
    """The games of one worker process that the trainer has not acknowledged yet.

    The limits say when to start no more games (`full`). Games in progress at that time are still accepted,
    because a finished game is never thrown away. Every method may raise OSError.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._sizes: dict[str, int] = {}
        """Bytes of each game that waits, by the stem of its file's name."""
        self.bytes = 0
        """Sum of `_sizes`."""
        self.rejected = 0
        """Games set aside since this object was made."""
        self.kept = 0
        """Number of games in `kept`; `kept_bytes` holds their bytes."""
        self.kept_bytes = 0

    @property
    def games(self) -> int:
        return len(self._sizes)

    @property
    def full(self) -> bool:
        games, size = self.games + self.kept, self.bytes + self.kept_bytes
        return games >= MAX_GAMES or size >= MAX_BYTES

    def open(self) -> dict[bytes, int]:
        """Return the uids of the games that an earlier process left, oldest first, and their sizes in bytes.
        Removes half-written files and sets damaged ones aside; a file that cannot be read now stays in the
        list."""
        for name in (REJECTED, KEPT):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        self.count_kept()
        self._sizes, self.bytes = {}, 0
        for path in self.folder.glob("*.tmp"):
            path.unlink()
        found: dict[bytes, int] = {}
        for path in sorted(self.folder.glob(f"*{SUFFIX}"), key=lambda path: path.stat().st_mtime_ns):
            try:
                _, reason = self._read(path)
            except OSError as error:
                log.error("game %s cannot be read now, and is offered later: %s", path.stem, error)
                reason = ""
            # A damaged file would be refused again and again.
            if reason:
                try:
                    self._set_aside(path, reason)
                except OSError as error:
                    log.error("damaged game %s stays where it is: %s", path.stem, error)
                continue
            size = found[bytes.fromhex(path.stem)] = path.stat().st_size
            self._add(path, size)
        return found

    def write(self, records: Sequence[tuple[bytes, bytes]]) -> None:
        """Write `(uid, data)` to disk durably: once this returns, a crash loses none of them."""
        temporaries = [self.folder / f"{uid.hex()}.tmp" for uid, _ in records]
        for temporary, (_, data) in zip(temporaries, records, strict=True):
            temporary.write_bytes(data)
            reach("spool.written")
        # Sync only after all are written, so that the first sync does most of the work for the others.
        for temporary in temporaries:
            with temporary.open("rb") as file:
                os.fsync(file.fileno())
        reach("spool.synced")
        for temporary, (uid, data) in zip(temporaries, records, strict=True):
            # From here on the game exists.
            self._add(temporary.rename(self._path(uid)), len(data))
            reach("spool.renamed")
        # The new names are stored in the folder, which needs a sync of its own.
        sync_folder(self.folder)
        reach("spool.folder_synced")

    def read(self, uid: bytes) -> SpooledGame | None:
        """Return the game as it is sent; None if it is missing or damaged (a damaged game is set aside)."""
        path = self._path(uid)
        if not path.exists():
            self._forget(path)
            return None
        data, reason = self._read(path)
        if reason:
            self.set_aside(uid, reason)
            return None
        return SpooledGame(uid, sha256(data), data)

    def delete(self, uid: bytes) -> None:
        """Delete a game that the trainer has. No sync is needed: a file that reappears after a crash is sent
        again, and the game counts once."""
        path = self._path(uid)
        path.unlink(missing_ok=True)
        reach("spool.deleted")
        self._forget(path)

    def set_aside(self, uid: bytes, reason: str) -> None:
        """Move a game that the trainer will never accept to `rejected/`, with the reason, for people to look
        at. If the disk fails, it still counts as waiting."""
        path = self._path(uid)
        try:
            if path.exists():
                self._set_aside(path, reason)
        finally:
            if not path.exists():
                self._forget(path)

    def keep(self, uid: bytes, reason: str, terms: Terms) -> None:
        """Move a game that the trainer does not accept under these terms to `kept/`, until the terms
        change."""
        path = self._path(uid)
        if not path.exists():
            self._forget(path)
            return
        size = path.stat().st_size
        # Write the note first. A game that has no note after a crash is merely offered again.
        target = self._noted(path, KEPT, note(reason, terms))
        reach("spool.kept_noted")
        path.rename(target)
        reach("spool.kept")
        self._forget(path)
        self._count_kept(1, size)
        log.warning("games are refused, and kept in %s: %s", target.parent, reason)

    def take_back(self, terms: Terms) -> dict[bytes, int]:
        """Move kept games that may be accepted under these terms back into the spool. Returns their uids and
        sizes."""
        found: dict[bytes, int] = {}
        for path in self._kept():
            try:
                reason = path.with_suffix(".reason")
                # A note that has rotted does not end the worker.
                if reason.exists() and not fits(reason.read_text("utf-8", "replace"), path, terms):
                    continue
                uid, size = bytes.fromhex(path.stem), path.stat().st_size
                path.rename(self.folder / path.name)
                reach("spool.taken_back")
                self._count_kept(-1, -size)
                self._add(path, size)
                found[uid] = size
                # Remove the reason last: a kept game without one would be offered again whatever the terms
                # are.
                with contextlib.suppress(OSError):  # a reason without a game does no harm
                    reason.unlink(missing_ok=True)
            except (OSError, ValueError) as error:  # or somebody else's file, whose name is no uid
                log.error("game %s stays in %s for now: %s", path.stem, path.parent, error)
        if found:
            log.info("%d kept games are offered again: settings or weights have changed", len(found))
        return found

    def count_kept(self) -> None:
        """Count the games in `kept` anew, from which people may move games away."""
        sizes = [path.stat().st_size for path in self._kept()]
        self.kept, self.kept_bytes = len(sizes), sum(sizes)

    def _kept(self) -> list[Path]:
        return sorted((self.folder / KEPT).glob(f"*{SUFFIX}"))

    def _count_kept(self, games: int, size: int) -> None:
        self.kept += games
        self.kept_bytes += size

    def _path(self, uid: bytes) -> Path:
        return self.folder / f"{uid.hex()}{SUFFIX}"

    def _add(self, path: Path, size: int) -> None:
        """Count a game as waiting. It may count already, after a write that failed half-way."""
        self._forget(path)
        self._sizes[path.stem] = size
        self.bytes += size

    def _forget(self, path: Path) -> None:
        self.bytes -= self._sizes.pop(path.stem, 0)

    def _read(self, path: Path) -> tuple[bytes, str]:
        """Return the bytes of a file, and what is wrong with them; "" if nothing is."""
        if path.stat().st_size > MAX_RECORD:
            return b"", f"larger than {MAX_RECORD} bytes"
        data = path.read_bytes()
        try:
            record = from_bytes(data)
        except BadRecord as error:
            return data, str(error)
        # The uid is how the trainer names the game in its answers.
        return data, "" if record.uid.hex() == path.stem else f"holds game {record.uid.hex()}"

    def _noted(self, path: Path, name: str, text: str) -> Path:
        """Write the note of a game that moves to the folder `name`. Returns the game's place there."""
        target = self.folder / name / path.name
        target.parent.mkdir(exist_ok=True)  # people may have moved it away
        target.with_suffix(".reason").write_text(text, "utf-8")
        return target

    def _set_aside(self, path: Path, reason: str) -> None:
        target = self._noted(path, REJECTED, reason + "\n")
        reach("spool.aside_noted")
        path.rename(target)
        reach("spool.aside")
        self.rejected += 1
        kept = sorted(target.parent.glob(f"*{SUFFIX}"), key=lambda path: path.stat().st_ctime_ns)
        # A client whose games are always refused must not fill its disk.
        for old in kept[:-MAX_REJECTED]:
            old.unlink()
            old.with_suffix(".reason").unlink(missing_ok=True)
        log.warning("game %s set aside in %s: %s", path.stem, target.parent, reason)


@dataclass(frozen=True)
class Terms:
    """The terms under which a server accepts games, as far as its WELCOME states them."""

    settings: str
    """Fingerprint of run and settings."""
    version: int
    """Version of the current weights."""

    @classmethod
    def of(cls, welcome: Welcome) -> Terms:
        asked = [welcome.run_id, welcome.game, welcome.self_play]
        text = msgspec.msgpack.encode(asked, order="deterministic")
        version = welcome.weights.version if welcome.weights is not None else 0
        return cls(hashlib.sha256(text).hexdigest()[:16], version)


def code_of(reason: str) -> str:
    """Return the code in a GAME_ACK's reason."""
    return reason.partition(":")[0]


def note(reason: str, terms: Terms) -> str:
    """Return the note that is stored beside a kept game: why it was refused, and under which settings."""
    return f"{reason}\n{_REFUSED_UNDER}{terms.settings}\n"


def fits(text: str, path: Path, terms: Terms) -> bool:
    """Return whether the game in `path` may be accepted now. `text`: what `note` returned. Raises OSError.

    A game with an unknown weights version may be accepted once the server has reached that version. Other
    games are offered again once anything but the weights has changed; then the trainer checks them.
    """
    reason, _, rest = text.partition("\n")
    if rest.strip() != f"{_REFUSED_UNDER}{terms.settings}":
        return True
    if code_of(reason) != Code.UNKNOWN_VERSION:
        return False
    try:
        return int(from_bytes(path.read_bytes()).versions.max()) <= terms.version
    except BadRecord:
        return True  # a damaged game is set aside when it is read for sending


def run_folder(root: Path, game: str, run: str, identity: bytes) -> Path:
    """Return the folder of one run, named so that no run name can point outside `root`."""
    name = re.sub(r"[^A-Za-z0-9_-]", "_", f"{game}-{run}")
    return root / f"{name}{MARK}{identity.hex()[:IDENTITY_DIGITS]}"


def claim(folder: Path, index: int, of: int = 1) -> tuple[Path, IO[str]]:
    """Create and lock the folder of worker `index` of `of` workers. Returns the folder, and its lock, to be
    closed; it ends with the process, too. Blocks while another worker starts.

    Raises Fatal(TRY_AGAIN) when another process, which may be about to end, owns the folder; Fatal(DISK) when
    the folder cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "starting.lock").open("w") as gate:
            # One worker starts at a time: taking over a folder and claiming it must not overlap.
            fcntl.flock(gate, fcntl.LOCK_EX)
            path = folder / f"worker-{index}"
            lock = _try_lock(path)
            # The previous process of this worker may still be ending; the supervisor starts this one again.
            if lock is None:
                raise Fatal(
                    f"the spool folder {path} is in use by another process; end that process, or give "
                    "this one another folder with --spool",
                    Exit.TRY_AGAIN,
                )
            # One worker is enough for this, and there is always a worker 0.
            if index == 0:
                # Workers that start after this one keep their games, which count in their own spools.
                _take_over(folder, path, {f"worker-{number}" for number in range(of)})
                identity = folder.name.partition(MARK)[2]
                # Other folders with this identity belong to the same run, served under another name before.
                # If a worker is starting in one of them, the run is still served under that name, and those
                # games stay there.
                for other in sorted(folder.parent.glob(f"*{MARK}{identity}")):
                    if other == folder:
                        continue
                    with (
                        (other / "starting.lock").open("w") as starting,
                        contextlib.suppress(BlockingIOError),
                    ):
                        fcntl.flock(starting, fcntl.LOCK_EX | fcntl.LOCK_NB)
                        _take_over(other, path, set())
            return path, lock
    except OSError as error:
        raise Fatal(
            f"cannot use the spool folder {folder}: {error.strerror}; free some space or give another "
            "folder with --spool",
            Exit.DISK,
        ) from error


def _try_lock(path: Path) -> IO[str] | None:
    path.mkdir(exist_ok=True)
    lock = (path / "owner.lock").open("w")
    try:
        # The lock ends with its process, so a killed worker leaves none.
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        return None
    return lock


def _take_over(folder: Path, mine: Path, spared: Set[str]) -> None:
    """Move the games of all folders of a run that have no owner to the folder `mine`, except from those with
    the names `spared`."""
    for other in sorted(folder.glob("worker-*")):
        lock = None if other.name in spared else _try_lock(other)
        if lock is None:
            continue
        with lock:
            left = sorted(other.glob(f"*{SUFFIX}"))
            for path in left:
                path.rename(mine / path.name)
                reach("takeover.moved")
            # In sorted order, games move before their reasons. A game without its reason is merely offered
            # again.
            (mine / KEPT).mkdir(exist_ok=True)
            for path in sorted((other / KEPT).glob("*")):
                path.rename(mine / KEPT / path.name)
        if left:
            sync_folder(mine)
            log.info("took over %d games that %s left", len(left), other)
