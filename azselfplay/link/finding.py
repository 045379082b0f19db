"""Finds a run by its folder or its name, and a network by its file or its run, as users write them.

`chess-tiny` is the run of that name in the folder of all runs; `runs/chess-tiny` and `/data/chess-tiny` are
folders. Where a weights file is needed, a run stands for its newest network.
"""

from __future__ import annotations

import contextlib
import difflib
import os
from pathlib import Path

from azselfplay.host.exits import Exit, Fatal
from azselfplay.host.reading import is_file, read_struct
from azselfplay.host.runs import RunFolder, is_name
from azselfplay.link.weights_files import SUFFIX, weights_path
from protocol.messages import WeightsInfo

RUNS = Path("runs")
"""Default folder of all runs."""
SERVER_LOCK = "azserver.lock"
"""File in a run's folder, locked by its azserver."""
SHOWN = 5
"""Number of runs listed where none is similar to the requested one."""
MARKS = ("run.json", "games.db", "weights/current.json")
"""A folder with one of these files is a run's, or a copy of a part of a run."""


def run_named(text: str | Path, runs: Path = RUNS) -> RunFolder:
    """Return the run in the folder `text`, or called `text` in `runs`.

    Raises Fatal(BAD_DATA), which names the run with the most similar name, or a few runs if none is similar.
    """
    found = find_run(text, runs)
    if found is None:
        places = [Path(text)] if Path(text).is_absolute() else [Path(text), runs / text]
        why = f"no run.json in {' nor in '.join(map(str, places))}; {_nearest(text, runs)}"
        raise Fatal(f"there is no run {str(text)!r}: {why}", Exit.BAD_DATA)
    return found


def weights_named(text: str | Path, runs: Path = RUNS) -> Path:
    """Return the weights file `text`, or the newest network of the run that `run_named` finds. Raises
    Fatal(BAD_DATA)."""
    path = Path(text)
    if is_file(path):
        return path
    run = find_run(text, runs)
    if run is None:
        what = f"{path} does not exist" if path.suffix == SUFFIX else f"there is no network {str(text)!r}"
        raise Fatal(
            f"{what}: give a {SUFFIX} file, or the name or the folder of a run; {_nearest(text, runs)}",
            Exit.BAD_DATA,
        )
    return newest_weights(run)


def newest_weights(run: RunFolder) -> Path:
    """Return the weights file that a run plays with now. Raises Fatal(BAD_DATA) if it has none yet."""
    current = run.weights / "current.json"
    if not os.path.lexists(current):
        away = run.kept_elsewhere("azserver")
        first = f"yet: azserver makes one when it begins the run (`azrun --run {run.name}` starts all)"
        why = f"here: {away}" if away else first
        raise Fatal(f"the run {run.path} has no network {why}", Exit.BAD_DATA)
    try:
        info = read_struct(current, WeightsInfo)
    except (OSError, ValueError) as error:
        raise Fatal(
            f"the network of the run {run.path} cannot be told (cannot read {current}: {error})",
            Exit.BAD_DATA,
        ) from error
    file = weights_path(run.weights, info)
    if not file.exists():
        raise Fatal(f"{current} names {file.name}, which is missing; restore it from a backup", Exit.BAD_DATA)
    return file


def find_run(text: str | Path, runs: Path = RUNS) -> RunFolder | None:
    """Like `run_named`, but return None if there is no such run."""
    # Try the text as a path first: a path means exactly that folder.
    for folder in (Path(text), runs / text):
        if str(text) and _is_run(folder):
            # Resolved, so that `.` and links have a name, too; but a link to a folder that cannot be a run's
            # name keeps its own.
            full = folder.resolve()
            full = folder if not is_name(full.name) and is_name(folder.name) else full
            return RunFolder(full.parent, full.name)
    return None


def new_run(text: str, runs: Path) -> RunFolder:
    """Return the run in the folder `text`, or called `text` in `runs`, which may not exist yet."""
    path = Path(text) if "/" in text else runs / text
    return RunFolder(path.parent, path.name)


def served_runs() -> list[RunFolder]:
    """Return the runs that an azserver of this user is serving at this moment, wherever their folders are.

    Such a process has the lock of its run open. Linux shows a process's open files only to its own user.
    """
    folders = set()
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # another user's process, or one that has ended
            for link in (process / "fd").iterdir():
                with contextlib.suppress(OSError):  # closed meanwhile
                    target = link.readlink()
                    if target.name == SERVER_LOCK and _is_run(target.parent):
                        folders.add(target.parent)
    # A run that is a link to a folder with another kind of name is found by the link only.
    return [RunFolder(folder.parent, folder.name) for folder in sorted(folders) if is_name(folder.name)]


def _is_run(folder: Path) -> bool:
    return any(is_file(folder / name) for name in MARKS)


def _nearest(text: str | Path, runs: Path) -> str:
    known = sorted({folder.name for folder in runs.glob("*") if _is_run(folder)})
    if not known:
        return f"there are no runs in the folder {runs.absolute()} (--runs, in Python runs=, names another)"
    if near := difflib.get_close_matches(Path(text).name, known, n=1):
        return f"the nearest run in {runs.absolute()} is {near[0]!r}"
    more = f" and {len(known) - SHOWN} more" if len(known) > SHOWN else ""
    return f"the runs in {runs.absolute()} are {', '.join(known[:SHOWN])}{more}"
