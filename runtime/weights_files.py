"""The weights files in a run's folder `weights/`: names that sort by version, and one name for the newest.

000045-1a2b3c4d.safetensors    version 45, and the first 8 hex digits of the file's sha256
<64 hex digits>.safetensors    as folders had it until protocol 3: read as ever, never written
newest                         a symbolic link to the file that `current.json` names
"""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path

from protocol.messages import WeightsInfo

SUFFIX = ".safetensors"
NEWEST = "newest"
DIGITS = 8
"""Hex digits of the sha256 in a name; who must be sure compares the whole hash with the bytes."""


def weights_path(folder: Path, info: WeightsInfo) -> Path:
    """The file of these weights: the one that is there, else the one to write."""
    path = folder / f"{info.version:06d}-{short_hash(info.sha256.hex())}{SUFFIX}"
    old = folder / f"{info.sha256.hex()}{SUFFIX}"
    return old if old.exists() and not path.exists() else path


def find_weights(folder: Path, sha256: bytes) -> Path | None:
    """The file with this hash by its name, of whatever version; None if there is none."""
    digits = sha256.hex()
    return next(
        iter([*folder.glob(f"*-{short_hash(digits)}{SUFFIX}"), *folder.glob(f"{digits}{SUFFIX}")]), None
    )


def hash_in_name(path: Path) -> str:
    """The digits of the sha256 in a file's name: `DIGITS` of them, or all 64 in an old name."""
    return path.stem.rpartition("-")[2]


def short_hash(digits: str) -> str:
    """What two spellings of one hash have in common."""
    return digits[:DIGITS]


def short_name(path: Path) -> str:
    """A file for people: what `newest` stands for, and 12 digits of an old name."""
    stem = path.resolve().stem
    return stem[:12] if re.fullmatch("[0-9a-f]{40,}", stem) else stem


def point_newest(target: Path) -> None:
    """Have `newest` name `target`, in one step. For people: nothing in the program depends on it."""
    link = target.with_name(NEWEST)
    partial = link.with_name(f"{NEWEST}.{os.getpid()}.partial")
    with contextlib.suppress(OSError):  # a file system without links, or a full one
        partial.unlink(missing_ok=True)
        partial.symlink_to(target.name)
        partial.replace(link)
