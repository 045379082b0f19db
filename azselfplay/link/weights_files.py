"""The weights files in a run's folder `weights/`: names that sort by version, and one name for the newest.

000045-1a2b3c4d.safetensors    version 45, and the first 8 hex digits of the file's sha256
newest                         a symbolic link to the file that `current.json` names

Whoever plays or trains with a server's weights has a folder of the newest few (`in_cache`).
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import re
from collections.abc import Awaitable, Callable
from pathlib import Path

from azselfplay.host.exits import DISK_BROKEN, Exit, Fatal
from azselfplay.host.reading import read_bytes
from azselfplay.host.runs import write_atomically
from protocol.messages import WeightsInfo

SUFFIX = ".safetensors"
NEWEST = "newest"
MOST_BYTES = 4 << 30
"""Most bytes of a file."""
DIGITS = 8
"""Hex digits of the sha256 in a name; where it matters, the whole hash is compared with the bytes."""
KEPT_FILES = 2
"""Files left in the folder of `in_cache`: the one in use, and the previous one for inspection."""
_NAMED = re.compile(f"[0-9]{{6,}}-([0-9a-f]{{{DIGITS}}})")
"""The stem of a file with its hash in the name."""


def weights_path(folder: Path, info: WeightsInfo) -> Path:
    """Return the file of these weights."""
    return folder / f"{info.version:06d}-{short_hash(info.sha256.hex())}{SUFFIX}"


def version_in(path: Path) -> int:
    """Return the version in the name of a weights file; -1 for another name."""
    version, hyphen, _ = path.name.partition("-")
    return int(version) if hyphen and version.isdigit() else -1


def find_weights(folder: Path, sha256: bytes) -> Path | None:
    """Return the file with this hash in its name, of any version; None if there is none."""
    return next(folder.glob(f"*-{short_hash(sha256.hex())}{SUFFIX}"), None)


def hash_in_name(path: Path) -> str:
    """Return the first `DIGITS` of the sha256, which a file's name ends in."""
    return path.stem.rpartition("-")[2]


def read_weights(path: Path) -> bytes:
    """Return the contents of a file. Raises Fatal(BAD_DATA) if there is none, or it has another sha256 than
    its name says, or that of the file that a link points to; Fatal(DISK) if the disk fails. A name without a
    hash says nothing."""
    try:
        data = read_bytes(path, MOST_BYTES)
    except OSError as error:
        code = Exit.DISK if error.errno in DISK_BROKEN else Exit.BAD_DATA
        raise Fatal(f"{path} cannot be used: it cannot be read: {error.strerror}", code) from error
    # Through a link, such as `newest`, to the name that has the hash.
    named = _NAMED.fullmatch(path.resolve().stem)
    digits = hashlib.sha256(data).hexdigest()
    if named is None or digits.startswith(named[1]):
        return data
    text = f"{path} is damaged: its sha256 begins with {short_hash(digits)}, its name says {named[1]}"
    raise Fatal(f"{text}; restore it from a backup, or use another file", Exit.BAD_DATA)


def short_hash(digits: str) -> str:
    """Return the part of a hash that names of files and players have."""
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
"""Returns "" if these weights, whose hash is right, were accepted, else why not. Raises OSError while the
disk does not take them."""
Load = Callable[[Path, WeightsInfo], str]
"""Blocks; returns "" if the weights in this file are now in use, else why they are not."""


def in_cache(folder: Path, load: Load) -> Use:
    """Return a `Use` that loads weights from a file in `folder`, which keeps the newest few."""

    def store_and_load(info: WeightsInfo, data: bytes | bytearray) -> str:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{info.sha256.hex()}.safetensors"
        write_atomically(path, data)
        fault = load(path, info)
        # Out of the way of the next start, and kept for whoever looks for the reason.
        if fault:
            path.rename(path.with_suffix(".refused"))
        files = sorted(folder.iterdir(), key=lambda file: file.stat().st_mtime_ns, reverse=True)
        for old in files[KEPT_FILES:]:
            old.unlink()
        return fault

    async def use(info: WeightsInfo, data: bytes | bytearray) -> str:
        return await asyncio.to_thread(store_and_load, info, data)

    return use
