"""The machine: cores, memory, disk, the compiler's cache, open files, GPUs."""

from __future__ import annotations

import math
import os
import resource
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from azselfplay.diagnostics.doctor.findings import Finding, fault, ok, warning
from azselfplay.host.exits import is_installed
from azselfplay.host.hardware import Gpus, memory_left, usable_cores
from azselfplay.host.processes import gpus_of_torch

GB = 1e9
LITTLE_MEMORY, NO_MEMORY = 1.5 * GB, 0.3 * GB
"""Available bytes below which there is a warning or a fault. A worker takes 0.3 to 0.9 GB, torch 0.5 GB."""
LITTLE_DISK, NO_DISK = 5 * GB, 0.1 * GB
PROBE_BYTES = 1 << 20
"""Bytes that are written and removed again to test a disk: only writing shows that a quota is used up."""
SMI = "nvidia-smi"
SMI_SECONDS = 20.0


@dataclass(frozen=True)
class Folder:
    """A folder that must be writable."""

    path: Path
    free: int | None
    """Bytes; None: unknown."""
    error: str = ""
    """Why no file can be written to it."""


@dataclass(frozen=True)
class Machine:
    """Facts about this machine."""

    cores: int
    """Number of cores that this process may use."""
    memory: int | None
    """Bytes available; None: unknown."""
    files: int
    """Number of files that a process may have open, after raising its limit as far as possible."""
    folder: Folder
    """The folder of games."""
    cache: Folder
    """The folder of compiled code."""
    gpus: Sequence[str] = ()
    """Name, memory and driver of each."""
    gpu_error: str = ""
    """Why the GPU driver cannot be queried although GPUs seem to exist."""
    torch: Gpus | None = None
    """What torch finds, if it was asked."""


@dataclass(frozen=True)
class Needs:
    """What a part needs from its machine."""

    files: int
    """Least number of open files."""
    usual_files: int
    """Number of open files with which the part is never delayed."""
    folder: str
    """A description of the folder, for people."""
    gpus: Sequence[int] = ()
    """Numbers of the GPUs in its settings."""


def look_at(folder: Path, cache: Path, *, asks_torch: bool = False) -> Machine:
    """Gather the facts. Writes a file to each folder, and removes it. `asks_torch`: whether its answer
    counts, if it is installed."""
    # Query the GPUs through the driver's program, so that no GPU library is loaded.
    gpus: list[str] = []
    gpu_error = ""
    # Only nvidia0, nvidia1, ... count: files such as nvidiactl can exist without a GPU.
    expected = any(path.name[6:].isdigit() for path in Path("/dev").glob("nvidia*"))
    if (program := shutil.which(SMI)) is None:
        gpu_error = f"there is no {SMI}" if expected else ""
    else:
        query = [program, "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"]
        try:
            said = subprocess.run(query, capture_output=True, text=True, timeout=SMI_SECONDS, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            gpu_error = f"{SMI}: {error}"
        else:
            rows = [[word.strip() for word in line.split(",")] for line in said.stdout.splitlines()]
            known = [row for row in rows if len(row) >= 3 and not said.returncode]
            gpus = [f"{', '.join(name)} ({memory}, driver {driver})" for *name, memory, driver in known]
            if said.returncode and expected:
                gpu_error = f"{SMI}: {(said.stdout + said.stderr).strip()[:200]}"
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # If there is no limit, take more than any part can use.
    files = 1_048_576 if hard == resource.RLIM_INFINITY else hard
    memory = None if math.isinf(left := memory_left()) else int(left)
    folders = probe_folder(folder), probe_folder(cache)
    torch = gpus_of_torch() if asks_torch and is_installed("torch") else None
    return Machine(usable_cores(), memory, files, *folders, gpus, gpu_error, torch)


def probe_folder(path: Path) -> Folder:
    """Test whether files can be written to the folder, or whether the folder can be created."""
    # A folder that does not exist yet will be on the disk of its nearest existing parent.
    try:
        there = next((one for one in (path, *path.parents) if one.exists()), Path("/"))
    except OSError as error:  # below a folder that this user may not enter
        return Folder(path, None, error.strerror or str(error))
    try:
        free = shutil.disk_usage(there).free
    except OSError:
        free = None
    if not there.is_dir():
        return Folder(path, free, f"{there} is not a folder")
    try:
        with tempfile.TemporaryFile(dir=there) as file:
            file.write(bytes(PROBE_BYTES))
            file.flush()
            # Some file systems report a lack of space only at this point.
            os.fsync(file.fileno())
    except OSError as error:
        return Folder(path, free, error.strerror or str(error))
    return Folder(path, free)


# ---- what the facts mean ----------------------------------------------------------------------


def machine_findings(machine: Machine, needs: Needs) -> list[Finding]:
    memory = ok("memory", "unknown on this system")
    if machine.memory is not None:
        found = f"{machine.memory / GB:.1f} GB available"
        todo = "end other programs, use fewer --workers and smaller --games, or raise a container's limit"
        memory = _limited("memory", machine.memory, (NO_MEMORY, LITTLE_MEMORY), found, todo)

    folder, place = machine.folder, f"{needs.folder} {machine.folder.path}"
    disk = ok("disk", f"{place} takes files")
    if folder.error:
        todo = "free some space, raise the quota, or correct the folder's owner and rights"
        disk = fault("disk", f"{place} does not take a file: {folder.error}", todo)
    elif folder.free is not None:
        found = f"{folder.free / GB:.1f} GB free for {place}"
        todo = "free some space; with a full disk games wait, and no checkpoint is written"
        disk = _limited("disk", folder.free, (NO_DISK, LITTLE_DISK), found, todo)

    cache = ok("compiled code", f"{machine.cache.path} can be written")
    if machine.cache.error:
        found = f"{machine.cache.path} does not take a file: {machine.cache.error}"
        todo = "set AZ_JIT_CACHE to a folder that can be written; without one nothing starts"
        cache = fault("compiled code", found, todo)

    found, todo = f"{machine.files:,} open files allowed", f"raise the limit to {needs.usual_files:,} or more"
    how = "ulimit -Hn; systemd: LimitNOFILE; docker: --ulimit nofile"
    files = ok("open files", found)
    if machine.files < needs.files:
        files = fault("open files", f"{found}, needed {needs.files:,}", f"{todo} ({how})")
    elif machine.files < needs.usual_files:
        files = warning("open files", found, f"{todo}, or many clients will not be let in ({how})")

    gpus = ok("GPUs", "; ".join(machine.gpus) or "none")
    # GPUs are numbered from 0.
    usable: Sequence[int] = range(len(machine.gpus))
    found = f"{len(machine.gpus)} GPUs here"
    if (torch := machine.torch) is not None:
        usable = [int(device.removeprefix("cuda:")) for device in torch.usable]
        found = torch.why or f"torch can use {', '.join(torch.usable)}"
    missing = ", ".join(str(number) for number in needs.gpus if number not in usable)
    if machine.gpu_error:
        gpus = fault("GPUs", machine.gpu_error, "install the driver that fits the kernel, then restart")
    elif missing:
        found = f"{found}, but GPU {missing} is asked for"
        gpus = fault("GPUs", found, "give --gpus that exist, or cpu")
    return [ok("cores", f"{machine.cores}"), memory, disk, cache, files, gpus]


def _limited(check: str, free: float, limits: tuple[float, float], found: str, todo: str) -> Finding:
    """Return a fault if less is free than the first limit, and a warning if less than the second."""
    nothing, little = limits
    if free < nothing:
        return fault(check, found, todo)
    return warning(check, found, todo) if free < little else ok(check, found)
