"""Remembers on disk which batch size was found worth collecting, for exactly this processor, torch and limits
on instructions.

There is one small file per question in the folder of compiled code (`AZ_JIT_CACHE`), whose name depends on
all sources. A file that cannot be read, or has changed, counts as missing; a failure to write one is ignored.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

import torch

from games.jit import CACHE

_OF_THE_MODEL = (
    "vendor_id",
    "cpu family",
    "model",
    "model name",
    "stepping",
    "cache size",
    "flags",
    "Features",
)
_LIMITS = ("ONEDNN_", "DNNL_", "ATEN_", "MKL_", "KMP_")
"""Environment variables with these prefixes may change which code a library runs."""


def remembered(about: str, sizes: Sequence[int], find: Callable[[], int], folder: Path = CACHE) -> int:
    """What `find` found for `about` on this machine, now or earlier: one of `sizes`."""
    key = f"{about}; {tuple(sizes)}; {machine()}"
    path = folder / f"size-{hashlib.sha256(key.encode()).hexdigest()[:16]}.json"
    known = _read(path, key)
    if known in sizes:
        return known
    found = find()
    _write(path, key, found)
    return found


def machine() -> str:
    """Everything that decides which code oneDNN runs for a convolution in one thread."""
    limits = sorted(f"{name}={value}" for name, value in os.environ.items() if name.startswith(_LIMITS))
    capability = torch.backends.cpu.get_cpu_capability()
    return "; ".join([torch.__version__, torch.__config__.show(), capability, *limits, _processor()])


@cache
def _processor() -> str:
    """The processor's model with its instructions and caches. A virtual machine may hide some of them."""
    found = getattr(torch.cpu, "get_capabilities", dict[str, object])()
    lines = [f"{name}={found[name]}" for name in sorted(found)]
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        first = cpuinfo.read_text().split("\n\n")[0]
        lines += [line for line in first.splitlines() if line.split("\t")[0].rstrip() in _OF_THE_MODEL]
    return "; ".join(lines)


def _read(path: Path, key: str) -> int:
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return 0
    if not isinstance(found, dict) or found.get("key") != key:
        return 0
    size = found.get("size")
    return size if isinstance(size, int) else 0


def _write(path: Path, key: str, size: int) -> None:
    """Write a file, whole or not at all: several processes may write at once."""
    half = path.with_suffix(f".{os.getpid()}.partial")
    with suppress(OSError):
        half.write_text(json.dumps({"size": size, "key": key}))
        half.replace(path)
