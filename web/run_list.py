"""A run in a few figures, read from the ends of its files: for the list of runs, and the head of its page."""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from report.ratings import read_ratings
from runtime.exits import Fatal
from runtime.reading import json_in, open_regular, read_json
from runtime.runs import RunFolder, shown_settings
from web.run_state import Held, State, changed_at, has_final_figures, locked_inodes, state_of

log = logging.getLogger(__name__)

MOST_RUNS = 200
"""Most runs in the list: those that changed last."""
DAMAGED = "run.json is damaged"
"""Shown in place of the game."""
LAST_BYTES = 32_768
"""Bytes read from the end of figures.jsonl: more than two lines."""


def summaries(runs: Path) -> list[dict[str, Any]]:
    """All runs, those that changed last first."""
    found = []
    with contextlib.suppress(FileNotFoundError), os.scandir(runs) as entries:
        for entry in entries:
            with contextlib.suppress(OSError, Fatal):
                run = RunFolder(runs, entry.name)
                if run.about.is_file() or run.games.is_file():
                    found.append((changed_at(run), run))
    found.sort(key=lambda one: one[0], reverse=True)
    held = locked_inodes()
    return [_listed(run, held) for _, run in found[:MOST_RUNS]]


def _listed(run: RunFolder, held: Held) -> dict[str, Any]:
    """The summary of a run, or what its damage leaves of it: the other runs are still listed."""
    try:
        return summary(run, held)
    except Exception as error:  # the files may hold anything
        log.warning("the run %s cannot be shown: %s: %s", run.path, type(error).__name__, error)
        return _unreadable(run, f"cannot be read ({type(error).__name__}: {error})"[:300])


def _unreadable(run: RunFolder, why: str) -> dict[str, Any]:
    unknown = ("network", "created", "silent_s", "games", "games_per_h", "step", "version", "strength")
    about = {"name": run.name, "game": why, "state": State.ENDED, "running": False}
    return about | dict.fromkeys(unknown) | {"changed": changed_at(run), "alerts": []}


def summary(run: RunFolder, held: Held) -> dict[str, Any]:
    """One run; unknown figures are None. Times are in seconds, `created` and `changed` since 1970.

    held: `locked_inodes()`.
    """
    about, figures, state, changed = _about(run), run.read_figures(), state_of(run, held), changed_at(run)
    is_running, now = state is State.RUNNING, time.time()
    row = newest_row(run) if is_running or not has_final_figures(run) else {}
    return {
        "name": run.name,
        "game": about.get("game"),
        "network": _network(run, figures),
        "state": state,
        "running": is_running,
        "created": _created(about),
        "changed": changed,
        "silent_s": max(0.0, now - changed) if state is State.SILENT else None,
        "games": row.get("trainer/games", figures.get("games")),
        "games_per_h": row.get("trainer/games_per_h", figures.get("games_per_h")),
        "step": row.get("trainer/step", figures.get("step")),
        "version": row.get("trainer/weights_version", figures.get("weights_version")),
        "strength": strongest(run),
        "alerts": row.get("alerts", figures.get("alerts")) or [],
    }


def _about(run: RunFolder) -> Mapping[str, Any]:
    try:
        return run.describe()
    except Fatal:
        return {"game": DAMAGED} if run.about.is_file() else {}


def _network(run: RunFolder, figures: Mapping[str, Any]) -> str | None:
    """The network's requested name and its size: `tiny (2x32)`. The size comes from the trainer's final
    figures, or before that from the file of the newest weights."""
    asked = shown_settings(run.config).get("net")
    what = figures.get("architecture") or _newest_weights(run).get("architecture")
    known = list(dict.fromkeys(name for name in (asked, what) if isinstance(name, str) and name))
    return f"{known[0]} ({known[1]})" if len(known) > 1 else next(iter(known), None)


def _newest_weights(run: RunFolder) -> Mapping[str, Any]:
    try:
        found = read_json(run.weights / "current.json")
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def newest_row(run: RunFolder) -> dict[str, Any]:
    """The last whole line of figures.jsonl; {} if there is none."""
    try:
        with open_regular(run.figures_log) as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - LAST_BYTES))
            lines = file.read(LAST_BYTES).split(b"\n")
    except OSError:
        return {}
    for line in reversed(lines[:-1]):
        with contextlib.suppress(ValueError):
            found = json_in(line)
            return found if isinstance(found, dict) else {}
    return {}


def strongest(run: RunFolder) -> dict[str, Any] | None:
    """The newest of the run's networks that `azplay ladder` has rated, by its best search."""
    rated = read_ratings(run.path / "ratings.json")
    known = [] if rated is None else [one for one in rated.players if one.name in rated.ratings]
    steps = [one.step for one in known if one.step is not None]
    if rated is None or not steps:
        return None
    newest = [rated.ratings[one.name] for one in known if one.step == max(steps)]
    best = max(newest, key=lambda rating: rating.elo)
    return {"elo": best.elo, "margin": best.margin95, "step": max(steps)}


def _created(about: Mapping[str, Any]) -> float | None:
    """When the run was created; a restored copy has the date of its original."""
    try:
        return datetime.fromisoformat(about["created"]).timestamp()
    except (KeyError, ValueError, TypeError):
        return None
