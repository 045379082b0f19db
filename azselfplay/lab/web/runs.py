"""A run in a few figures, read from the ends of its files: for the list of runs, and for the head of the
run's page.

Its locks and the ages of its files show whether a run is running, has ended, or has fallen silent.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Mapping
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import Any

from azselfplay.host.exits import Fatal
from azselfplay.host.reading import open_regular
from azselfplay.host.runs import (
    LAST_BYTES,
    Left,
    RunFolder,
    has_final_figures,
    is_locked,
    left_by,
    made_at,
    modified,
    newest_row,
    shown_settings,
)
from azselfplay.lab.report.curves import STEP, row_of
from azselfplay.lab.report.settings import notes_of
from azselfplay.lab.report.strength import strongest
from azselfplay.store.reader import game_of
from azselfplay.store.sqlite import beside

log = logging.getLogger(__name__)

MOST_RUNS = 200
"""Most runs in the list: those that changed last."""

DAMAGED = "run.json is damaged"
"""Shown in place of the game."""

FRESH = 150.0
"""A run whose locks cannot be seen from here counts as running for this many seconds after its last figures
or game. While it trains, figures are written at least once a minute."""

PROGRAMS = ("azserver", "trainer")

LOSS, POINTS = "trainer/policy_loss", 24
"""The figure of the small curve in the list of runs, and its number of points."""


class RunState(StrEnum):
    """The state of a run."""

    RUNNING = "running"
    ENDED = "ended"
    """Its processes ended cleanly: the figures in the folder are final."""
    SILENT = "silent"
    """Its processes were killed, or have sent nothing for some time."""


def summaries(runs: Path) -> dict[str, Any]:
    """Return `runs`, most recently changed first, and how many are `left_out` after MOST_RUNS."""
    found = []
    with contextlib.suppress(FileNotFoundError), os.scandir(runs) as entries:
        for entry in entries:
            with contextlib.suppress(OSError, Fatal):
                run = RunFolder(runs, entry.name)
                if run.about.is_file() or run.games.is_file():
                    found.append((changed_at(run), run))
    found.sort(key=lambda one: one[0], reverse=True)
    listed = []
    unknown = ("network", "created", "silent_s", "games", "games_per_h", "step", "version", "strength")
    for changed, run in found[:MOST_RUNS]:
        try:
            # Only the list of runs shows these two.
            curve: list[tuple[float, float]] = []
            with contextlib.suppress(OSError):  # there are no figures before the first training step
                curve = small_curve(run.figures_log, run.figures_log.stat().st_size)
            note = next(iter(notes_of(run).splitlines()), "")
            listed.append(summary(run) | {"curve": curve, "note": note})
        except Exception as error:  # the files may hold anything, and the other runs are still listed
            log.warning("the run %s cannot be shown: %s: %s", run.path, type(error).__name__, error)
            why = f"cannot be read ({type(error).__name__}: {error})"[:300]
            about = {"name": run.name, "game": why, "state": RunState.ENDED, "running": False}
            listed.append(
                about | dict.fromkeys(unknown) | {"changed": changed, "curve": [], "note": "", "alerts": []}
            )
    return {"runs": listed, "left_out": max(0, len(found) - MOST_RUNS)}


def summary(run: RunFolder) -> dict[str, Any]:
    """Return one run; unknown figures are None. Times are in seconds, `created` and `changed` since 1970."""
    figures, state, changed = run.read_figures(), state_of(run), changed_at(run)
    is_running, now = state is RunState.RUNNING, time.time()
    # Of a trainer that has left, nothing speaks of the present (`view.trainer_of`).
    trainer = run.lock_of("trainer")
    has_left = is_running and not is_locked(trainer) and left_by(trainer) in (Left.ENDED, Left.KILLED)
    # No line is written while the step stands still, so an old rate is not the present one.
    is_old = has_left or (is_running and abs(now - modified(run.figures_log)) > FRESH)
    row = newest_row(run) if is_running or not has_final_figures(run) else {}
    about: Mapping[str, Any] = {"game": DAMAGED} if run.about.is_file() else {}
    with contextlib.suppress(Fatal):
        about = run.describe() if run.about.is_file() else {"game": game_of(run)}
    asked = shown_settings(run.config).get("net")
    nets = list(
        dict.fromkeys(name for name in (asked, run.read_architecture()) if isinstance(name, str) and name)
    )
    return {
        "name": run.name,
        "game": about.get("game"),
        "network": f"{nets[0]} ({nets[1]})" if len(nets) > 1 else next(iter(nets), None),
        "state": state,
        "running": is_running,
        "created": made_at(about),
        "changed": changed,
        "silent_s": max(0.0, now - changed) if state is RunState.SILENT else None,
        "games": row.get("trainer/games", figures.get("games")),
        "games_per_h": None if is_old else row.get("trainer/games_per_h", figures.get("games_per_h")),
        "step": row.get("trainer/step", figures.get("step")),
        "version": row.get("trainer/weights_version", figures.get("weights_version")),
        "strength": strongest(run),
        "away": run.kept_elsewhere("trainer"),
        "alerts": [] if has_left else row.get("alerts", figures.get("alerts")) or [],
    }


@lru_cache(maxsize=2 * MOST_RUNS)
def small_curve(path: Path, size: int) -> list[tuple[float, float]]:
    """Return (step, policy loss) at about POINTS moments, evenly spread over the first `size` bytes of
    figures.jsonl. Only the lines at these places are read, and only once if the file does not change."""
    found: dict[float, float] = {}
    with contextlib.suppress(OSError), open_regular(path) as file:
        lines = []
        for at in range(POINTS):
            file.seek(size * at // POINTS)
            if at:
                file.readline(LAST_BYTES)  # the rest of a line
            lines.append(file.readline(LAST_BYTES))
        file.seek(max(0, size - LAST_BYTES))
        lines += file.read(LAST_BYTES).split(b"\n")[-2:-1]
        for row in map(row_of, lines):
            if row is not None and LOSS in row:
                found[row[STEP]] = row[LOSS]
    return sorted(found.items())


def state_of(run: RunFolder) -> RunState:
    locks = [run.lock_of(program) for program in PROGRAMS]
    if any(map(is_locked, locks)):
        return RunState.RUNNING
    left = [one for lock in locks if (one := left_by(lock)) is not None]
    if Left.KILLED in left:
        return RunState.SILENT
    if left and Left.ELSEWHERE not in left:
        return RunState.ENDED
    # A lock that another machine holds cannot be seen from here.
    # If its clock is ahead, or was, the difference is below 0.
    if abs(time.time() - _grew_at(run)) < FRESH:
        return RunState.RUNNING
    return RunState.SILENT if left else RunState.ENDED


def changed_at(run: RunFolder) -> float:
    """Return when the run's figures or games last changed, in seconds since 1970."""
    return max(_grew_at(run), *(modified(path) for path in (run.figures, run.about)))


def _grew_at(run: RunFolder) -> float:
    """Return when the last figures or games were written, in seconds since 1970. Games are written to the
    write-ahead log first, and only from time to time to the store itself. An empty log comes from a mere
    reader."""
    log = beside(run.games, "-wal")
    logs = (log,) if log.is_file() and log.stat().st_size else ()
    return max(modified(path) for path in (run.figures_log, run.games, *logs))
