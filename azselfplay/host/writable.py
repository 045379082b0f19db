"""Checks at the start that folders can be written, before a child process fails.

A container may have a read-only root file system. Then only folders mounted for a purpose can be written.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from azselfplay.host.exits import Exit, Fatal


def compiled_code_folder() -> Path:
    """Return where `games.jit` keeps compiled code. Not imported from there, because that import fails where
    nothing can be kept."""
    return Path(os.environ.get("AZ_JIT_CACHE") or Path.home() / ".cache" / "azselfplay" / "jit")


def check_folders(own: Path, setting: str) -> None:
    """Raise Fatal(CONFIG) naming the first folder that cannot be written by a program of a run, and what to
    do.

    `own`: its own folder (a run's folder, a spool), which need not exist yet. `setting`: the setting that
    names it.
    """
    _check(own, f"give another folder with {setting}")
    _check(
        compiled_code_folder(),
        "compiled code is kept there: let the environment variable AZ_JIT_CACHE name another folder",
    )
    try:
        tempfile.gettempdir()
    except FileNotFoundError as error:
        text = "no folder for temporary files can be written: mount a tmpfs on /tmp, or set TMPDIR"
        raise Fatal(text, Exit.CONFIG) from error


def _check(folder: Path, what_to_do: str) -> None:
    there = next(one for one in (folder.absolute(), *folder.absolute().parents) if one.exists())
    if there.is_dir() and os.access(there, os.W_OK | os.X_OK):
        return
    why = "is not a folder" if not there.is_dir() else "cannot be written (read-only, or not allowed)"
    below = "" if there == folder.absolute() else f" ({there} {why})"
    raise Fatal(f"{folder} {'cannot be made' if below else why}{below}: {what_to_do}", Exit.CONFIG)
