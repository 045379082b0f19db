"""Finds all descendants of a process by a mark in their environment, whatever their parent is now."""

import os
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path

VARIABLE = "DESCENDANTS_MARK"


def marked_environment() -> dict[str, str]:
    """Return this process's environment with a mark of its own."""
    return {**os.environ, VARIABLE: uuid.uuid4().hex}


def marked(environment: Mapping[str, str], *entries: str) -> dict[int, str]:
    """Return the command lines of the living processes with this mark, by process id; `entries`:
    what else their environment must have."""
    wanted = {one.encode() for one in (f"{VARIABLE}={environment[VARIABLE]}", *entries)}
    found = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdecimal() or int(folder.name) == os.getpid():
            continue
        try:
            if wanted <= set((folder / "environ").read_bytes().split(b"\0")):
                found[int(folder.name)] = (folder / "cmdline").read_text().replace("\0", " ")
        except OSError:  # it ended meanwhile, or is a zombie
            continue
    return found


def wait_for(what: Callable[[], bool], meaning: Callable[[], str], patience: float = 400.0) -> None:
    """Wait until `what()` is true; fail with `meaning()` after `patience` seconds: torch starts slowly on a
    busy machine."""
    deadline = time.monotonic() + patience
    while not what():
        assert time.monotonic() < deadline, f"in vain: {meaning()}"
        time.sleep(0.05)
