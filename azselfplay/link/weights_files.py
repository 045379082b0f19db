"""The weights files in a run's folder `weights/`: names that sort by version, and one name for the newest.

000045-1a2b3c4d.safetensors    version 45, and the first 8 hex digits of the file's sha256
newest                         a symbolic link to the file that `current.json` names

A process that plays or trains with a server's weights keeps the newest few in a folder (`in_cache`).
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import re
import struct
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from azselfplay.host.exits import DISK_BROKEN, Exit, Fatal
from azselfplay.host.reading import open_regular, read_bytes
from azselfplay.host.runs import write_atomically
from protocol.messages import WeightsInfo

SUFFIX = ".safetensors"
NEWEST = "newest"
LARGEST = 2 * 1024**3
"""Most bytes of weights, on the way and on the disk; the largest preset has some 100 MB."""
DIGITS = 8
"""Hex digits of the sha256 in a name; where it matters, the whole hash is compared with the bytes."""
KEPT_FILES = 2
"""Files that stay in the folder of `in_cache`: the one in use, and the previous one for inspection."""
KEPT_SECONDS = 120.0
"""Files at most this much older than the newest one stay as well: another process may be writing or loading
them."""
_NAMED = re.compile(f"[0-9]{{6,}}-([0-9a-f]{{{DIGITS}}})")
"""The stem of a file with its hash in the name."""


def weights_path(folder: Path, info: WeightsInfo) -> Path:
    """Return the file of these weights."""
    return folder / f"{info.version:06d}-{short_hash(info.sha256.hex())}{SUFFIX}"


def version_in(path: Path) -> int:
    """Return the version in the name of a weights file; -1 for another name."""
    version, hyphen, _ = path.name.partition("-")
    return int(version) if hyphen and version.isdigit() else -1


def evenly_spread(places: Sequence[float], room: int, factors: Sequence[float] | None = None) -> list[int]:
    """Return the indices of the `room` ascending `places` to keep: the first, the last, and others spread
    evenly. `factors`: of each place's gap; one with a larger factor stays longer.

    Repeatedly drops the place with the narrowest gap between its neighbours, of equal ones the first. So when
    places come one by one, the gaps differ by about a factor of two, however long it goes on.
    """
    left = list(range(len(places)))
    while len(left) > room:
        triples = zip(left, left[1:], left[2:], strict=False)
        gaps = [(places[end] - places[begin]) * (factors[at] if factors else 1) for begin, at, end in triples]
        # Without an inner place, the last one goes.
        left.pop(1 + gaps.index(min(gaps)) if gaps and room else -1)
    return left


def find_weights(folder: Path, sha256: bytes) -> Path | None:
    """Return the file with this hash in its name, of any version; None if there is none."""
    return next(folder.glob(f"*-{short_hash(sha256.hex())}{SUFFIX}"), None)


def hash_in_name(path: Path) -> str:
    """Return the first `DIGITS` hex digits of the sha256, which end a file's name."""
    return path.stem.rpartition("-")[2]


def read_header(path: Path) -> bytes:
    """Return the header of a weights file, which holds its metadata. Raises OSError."""
    with open_regular(path) as file:
        length = file.read(8)
        if len(length) < 8:
            return length
        # A safetensors file begins with the length of its JSON header, then the header. A damaged length must
        # not fill memory.
        return length + file.read(min(struct.unpack("<Q", length)[0], 8 << 20))


def read_weights(path: Path) -> bytes:
    """Return the contents of a file. Raises Fatal(BAD_DATA) if there is no such file, or if its sha256 is not
    the one in its name (for a link, in the name of its target), Fatal(DISK) if the disk fails. Without a hash
    in the name, nothing is compared."""
    try:
        data = read_bytes(path, LARGEST)
    except OSError as error:
        code = Exit.DISK if error.errno in DISK_BROKEN else Exit.BAD_DATA
        raise Fatal(f"{path} cannot be used: it cannot be read: {error.strerror}", code) from error
    # Follow a link, such as `newest`, to the name that has the hash.
    named = _NAMED.fullmatch(path.resolve().stem)
    digits = hashlib.sha256(data).hexdigest()
    if named is None or digits.startswith(named[1]):
        return data
    text = f"{path} is damaged: its sha256 begins with {short_hash(digits)}, its name says {named[1]}"
    raise Fatal(f"{text}; restore it from a backup, or use another file", Exit.BAD_DATA)


def short_hash(digits: str) -> str:
    """Return the part of a hash that names of files and players contain."""
    return digits[:DIGITS]


def point_newest(target: Path) -> None:
    """Make `newest` point to `target`, in one step. It is for people: nothing in the program depends on
    it."""
    link = target.with_name(NEWEST)
    partial = link.with_name(f"{NEWEST}.{os.getpid()}.partial")
    with contextlib.suppress(OSError):  # a file system without links, or a full one
        partial.unlink(missing_ok=True)
        partial.symlink_to(target.name)
        partial.replace(link)


Use = Callable[[WeightsInfo, bytes | bytearray], Awaitable[str]]
"""Returns "" if these weights, whose hash is right, were accepted, else why not. Raises OSError while they
cannot be written to the disk."""
Load = Callable[[Path, WeightsInfo], str]
"""Blocks; returns "" if the weights in this file are now in use, else why they are not."""


def in_cache(folder: Path, load: Load) -> Use:
    """Return a `Use` that writes weights to a file in `folder`, loads that file, and keeps the newest few."""

    def store_and_load(info: WeightsInfo, data: bytes | bytearray) -> str:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{info.sha256.hex()}.safetensors"
        write_atomically(path, data)
        fault = load(path, info)
        # Renamed, so that no start uses it, but kept for anybody who looks for the reason.
        if fault:
            with contextlib.suppress(FileNotFoundError):  # another process has refused it, too
                path.rename(path.with_suffix(".refused"))
        # Remove old files. Other processes may use the folder at the same time: the evaluators of several
        # GPUs, or all workers of a machine.
        written: list[tuple[float, Path]] = []
        for file in folder.iterdir():
            with contextlib.suppress(FileNotFoundError):  # another process has just removed or renamed it
                written.append((file.stat().st_mtime, file))
        written.sort(reverse=True)
        for at, file in written[KEPT_FILES:]:
            # Compared with the newest file and not with the clock of this machine: the folder may be on
            # another. After that clock was set back, the file in use may look old.
            if file != path and written[0][0] - at > KEPT_SECONDS:
                with contextlib.suppress(OSError):  # a folder, or a file of another user: only space is lost
                    file.unlink()
        return fault

    async def use(info: WeightsInfo, data: bytes | bytearray) -> str:
        return await asyncio.to_thread(store_and_load, info, data)

    return use
