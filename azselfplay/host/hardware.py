"""The resources that this machine gives a process: processors, memory, and whether there is a GPU.

Processors are counted if the process may run on them, up to its container's quota. A container with `--cpus
2` on a machine with 64 processors may run on any of them, but gets the time of two. Linux control groups
define that quota: `cpu.max` in version 2, `cpu.cfs_quota_us` and `cpu.cfs_period_us` in version 1 (kernel
documentation, "Control Group v2" and "CFS Bandwidth Control"). They limit its memory in the same way.

This module also measures the processor time that processes have used, and gives freed memory back to the
system. glibc keeps memory that was freed in the middle of its heap. After large messages these are megabytes,
which the next large message may not be able to reuse, so a process would grow with each flood of large
messages.
"""

from __future__ import annotations

import ctypes
import math
import os
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from azselfplay.host.exits import Exit

MOUNT = Path("/sys/fs/cgroup")
MEMBERSHIP = Path("/proc/self/cgroup")
MACHINE = Path("/proc/meminfo")
V1_MOUNTS = ("cpu,cpuacct", "cpu")
"""Controller folders of version 1, below MOUNT."""
TICKS = os.sysconf("SC_CLK_TCK")
"""Ticks per second, the unit of /proc."""
DEVICE_FILES = ("/dev/nvidiactl", "/dev/nvidia0", "/dev/dxg", "/dev/kfd")
"""Files of GPUs on Linux: one is there if this machine or container has a GPU and torch was asked for it."""
DRIVERS = ("/proc/driver/nvidia/version", *DEVICE_FILES)
"""Files of GPU drivers; without any of them there is no need to ask torch. NVIDIA's may have no device file
yet: without a rule of udev, the first use of CUDA makes them. The first one is also in containers without a
GPU."""
_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
"""glibc's `malloc_trim`; None if the C library is not glibc."""


class Gpus(NamedTuple):
    """What torch finds, as `python -m net.gpu` prints it in JSON for processes that never import torch."""

    names: Sequence[str]
    """What the GPUs are called, such as `NVIDIA H200`, all that torch finds: `cuda:0`, `cuda:1` ..."""
    usable: Sequence[str]
    """Devices, such as `cuda:0`, that torch has code for."""
    why: str = ""
    """Why none is usable."""
    may_come: bool = False
    """Whether torch finds none, although it and this machine are made for one: the driver may come back."""

    @property
    def code(self) -> Exit:
        """Return the exit code of a process that needs a GPU if none is usable."""
        return Exit.TRY_AGAIN if self.may_come else Exit.CONFIG


def named_devices(text: str, *alone: str) -> list[str]:
    """Return the devices in `text`, such as `cuda:0,cuda:1`; `alone`: words for a whole list. Raises
    ValueError for anything else, and for a GPU that is named twice."""
    names = [word.strip() for word in text.split(",")]
    for name in names:
        if name in alone and len(names) > 1:
            raise ValueError(f"{name} stands alone, without other devices")
        if name not in alone and not re.fullmatch(r"cpu|cuda:\d+", name):
            one = ", ".join((*alone, "or cpu, cuda:0, cuda:1 ..., separated by commas"))
            raise ValueError(f"there is no device {name!r}: choose {one}")
        if name != "cpu" and names.count(name) > 1:
            raise ValueError(f"{name} is there twice: give each once")
    return names


def usable_cores(mount: Path = MOUNT, membership: Path = MEMBERSHIP) -> int:
    """Return the number of whole processors, at least 1. `mount`: folder of the control groups. `membership`:
    file that names our groups."""
    # Rounded down: with one thread more than the quota, a thread would stand still for part of the time.
    return max(1, int(min(len(os.sched_getaffinity(0)), cpu_quota(mount, membership))))


def workers_beside(devices: Sequence[str], cores: int) -> int:
    """Return how many workers keep the evaluators on these devices of the same machine busy. Workers get most
    cores if GPUs evaluate, and a quarter of the cores if the evaluators run on the CPU."""
    return max(1, cores // 4 if "cpu" in devices else cores - len(devices) - 1)


def cpu_quota(mount: Path = MOUNT, membership: Path = MEMBERSHIP) -> float:
    """Return the smallest quota of our control group and its parents, in processors; inf: none."""
    quotas = [
        *(_quota(_read(folder / "cpu.max").split()) for folder in _groups(mount, membership, "")),
        *(
            _quota([_read(folder / "cpu.cfs_quota_us"), _read(folder / "cpu.cfs_period_us")])
            for name in V1_MOUNTS
            for folder in _groups(mount / name, membership, "cpu")
        ),
    ]
    return min(quotas, default=math.inf)


def memory_left(mount: Path = MOUNT, membership: Path = MEMBERSHIP, machine: Path = MACHINE) -> float:
    """Return the fewest bytes that the machine has available, or that our control group or one of its parents
    leaves below its limit; inf: nothing says so (only Linux does)."""
    available = (line.split() for line in _read(machine).splitlines() if line.startswith("MemAvailable:"))
    left = [
        *(1024 * int(words[1]) for words in available),
        *(_left(folder, "memory.max", "memory.current", "") for folder in _groups(mount, membership, "")),
        *(
            _left(folder, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_")
            for folder in _groups(mount / "memory", membership, "memory")
        ),
    ]
    return min(left, default=math.inf)


def _left(folder: Path, limit: str, used: str, prefix: str) -> float:
    """`prefix`: of the names in `memory.stat` that count a group with those below it."""
    lines = (line.partition(" ") for line in _read(folder / "memory.stat").splitlines())
    stat = {name: value for name, _, value in lines}
    try:
        # The cache of files is part of what is used, and the kernel gives it up before anybody lacks memory.
        cached = sum(int(stat.get(f"{prefix}{kind}_file", 0)) for kind in ("active", "inactive"))
        return max(0, int(_read(folder / limit)) - int(_read(folder / used)) + cached)
    except ValueError:  # `max`, or nothing: no limit
        return math.inf


def _groups(mount: Path, membership: Path, controller: str) -> Iterator[Path]:
    """Yield the folder of our group and those of its parents. A container often sees only its own group, as
    `mount`, whatever `membership` says."""
    yield mount
    for line in _read(membership).splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controller in controllers.split(","):
            parts = [part for part in path.split("/") if part not in ("", "..")]
            # Each parent may have a quota of its own; the smallest one counts.
            for depth in range(1, len(parts) + 1):
                yield mount.joinpath(*parts[:depth])


def _quota(words: list[str]) -> float:
    """Return processors from "QUOTA PERIOD", both in microseconds; `max`, -1 or nothing means no limit."""
    try:
        quota, period = (int(word) for word in words)
    except ValueError:
        return math.inf
    return quota / period if quota > 0 and period > 0 else math.inf


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""


def seconds_of(pid: int) -> float:
    """Return the processor seconds that one process has used, with all its threads. Raises OSError if there
    is no such process."""
    user, system = _stat(pid)[11:13]
    return (int(user) + int(system)) / TICKS


def seconds_of_trees(roots: Collection[int]) -> float:
    """Return the processor seconds of these processes and their descendants, including descendants in other
    sessions and ended children that they have waited for."""
    ticks, parents = dict[int, int](), dict[int, int]()
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # the process has ended meanwhile
            fields, pid = _stat(int(folder.name)), int(folder.name)
            ticks[pid], parents[pid] = sum(map(int, fields[11:15])), int(fields[1])

    def is_below(pid: int) -> bool:
        while pid not in roots:
            if pid not in parents:
                return False
            pid = parents[pid]
        return True

    return sum(ticks[pid] for pid in ticks if is_below(pid)) / TICKS


def _stat(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat, starting with the third (the state)."""
    # The second field is the name in brackets, which may hold spaces, brackets and bytes that are no text.
    return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()


def give_back() -> bool:
    """Give freed memory back to the system; return whether any was given back. Takes about a millisecond for
    a heap of 100 MB."""
    return _trim is not None and bool(_trim(0))


def may_have_gpus(files: Sequence[str] = DRIVERS) -> bool:
    """Return whether this process may see a GPU: one of `files` is there, and CUDA_VISIBLE_DEVICES does not
    hide all. Once torch was asked, DEVICE_FILES say more than DRIVERS. Loads neither torch nor any GPU
    library."""
    if os.environ.get("CUDA_VISIBLE_DEVICES", "all").strip() in ("", "-1"):
        return False
    return any(Path(path).exists() for path in files)
