"""A program's file operations, and every state that a power loss could leave of them.

The model of a disk: names (create, rename, remove) reach the disk in the order in which they were made. Any
prefix of them is there, at least all before the last fsync of a folder. Bytes reach it in any order: of the
pages written since the last fsync of their file any subset is there; the others are as before, or zeros where
the file was shorter.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

PAGE = 512
"""Least number of bytes that a disk writes at once."""


@dataclass(frozen=True)
class Named:
    """A change of names: `old` becomes `new`. Without `old` it is a new file, without `new` a removed one."""

    old: str
    new: str
    inode: int = 0


@dataclass(frozen=True)
class Written:
    inode: int
    offset: int
    data: bytes


@dataclass(frozen=True)
class Cut:
    """The file now has this length."""

    inode: int
    size: int


@dataclass(frozen=True)
class Synced:
    """The inode of a file, or 0 for a folder."""

    inode: int


@dataclass(frozen=True)
class Promised:
    """From here on `key` must be there in any case or, if not `holds`, may be missing again."""

    key: bytes
    holds: bool = True


Entry = Named | Written | Cut | Synced | Promised
State = dict[str, bytes]
"""Contents of files by name."""
Keeps = Callable[[], bool]
"""Returns whether the next unsynced operation reached the disk."""


@dataclass
class WriteLog:
    """All operations, in order."""

    entries: list[Entry] = field(default_factory=list)
    names_with_files: bool = False
    """Whether an fsync of a file also syncs its folder (SQLite does both where needed, unseen by us)."""

    def promised(self, at: int) -> set[bytes]:
        """Return what had been promised before entry `at`."""
        found: set[bytes] = set()
        for entry in self.entries[:at]:
            if isinstance(entry, Promised):
                (found.add if entry.holds else found.discard)(entry.key)
        return found

    def states(self, at: int, rng: random.Random, subsets: int) -> Iterator[State]:
        """Yield states after a power loss before entry `at`: no unsynced operation, all of them, and random
        subsets."""
        yield self._state(at, lambda: False)
        yield self._state(at, lambda: True)
        for _ in range(subsets):
            share = rng.random()
            yield self._state(at, lambda: rng.random() < share)  # noqa: B023 (used at once)

    def _state(self, at: int, keeps: Keeps) -> State:
        names = self._names(at, keeps)
        return {name: self._contents(inode, at, keeps) for name, inode in names.items()}

    def _names(self, at: int, keeps: Keeps) -> dict[str, int]:
        before = self.entries[:at]
        syncs = [
            n
            for n, entry in enumerate(before)
            if isinstance(entry, Synced) and (not entry.inode or self.names_with_files)
        ]
        durable = syncs[-1] if syncs else -1
        names: dict[str, int] = {}
        for number, entry in enumerate(before):
            if not isinstance(entry, Named):
                continue
            if number > durable and not keeps():
                break
            inode = names.pop(entry.old, 0) if entry.old else entry.inode
            if entry.new:
                names[entry.new] = inode
        return names

    def _contents(self, inode: int, at: int, keeps: Keeps) -> bytes:
        mine = [one for one in self.entries[:at] if getattr(one, "inode", 0) == inode]
        synced = max((n for n, one in enumerate(mine) if isinstance(one, Synced)), default=-1)
        data = bytearray()
        for number, one in enumerate(mine):
            sure = number < synced
            if isinstance(one, Written):
                for offset, page in _pages(one):
                    if sure or keeps():
                        _put(data, offset, page)
            elif isinstance(one, Cut) and (sure or keeps()):
                del data[one.size :]
        return bytes(data)


def _pages(written: Written) -> Iterator[tuple[int, bytes]]:
    """Split at the boundaries of the file's pages."""
    at = 0
    while at < len(written.data):
        offset = written.offset + at
        size = PAGE - offset % PAGE
        yield offset, written.data[at : at + size]
        at += size


def _put(data: bytearray, offset: int, page: bytes) -> None:
    if len(data) < offset:
        data.extend(bytes(offset - len(data)))
    data[offset : offset + len(page)] = page


def lay_out(state: State, folder: Path) -> None:
    """Make `folder` contain these files."""
    for name, data in state.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
