"""The machine that a recipe was run on, so that wall-clock times can be compared."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import torch


def describe_machine() -> dict[str, str | int | float]:
    """Processor, cores, memory (GB), versions, date, and whether anything else was running (load average)."""
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "gpu": torch.cuda.get_device_name(0) if torch.cuda.is_available() else "none",
        "load_before": round(os.getloadavg()[0], 1),
        "date": datetime.now(UTC).date().isoformat(),
        "commit": _commit(),
    }


def _commit() -> str:
    """The commit of the working tree, with "+" if its files have changed since; empty without git."""
    try:
        # Results are written there while one seed is run after the other.
        changed = _git("status", "--porcelain", "--untracked-files=no", "--", ".", ":!results")
        return _git("rev-parse", "--short", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.SubprocessError):
        return ""


def _git(*words: str) -> str:
    command = ["git", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.strip()


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
