"""A run in a few figures, read from the ends of its files: for the list of runs, for the head of its page,
and its strength over training from the results of `azplay ladder` and `azplay truth`.

Whether it is running, has ended, or has fallen silent follows from its locks and the ages of its files: locks
are only looked up, never tried.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import time
from collections.abc import Iterator, Mapping
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from azselfplay.games import get_game
from azselfplay.games.knowledge import knowledge_of
from azselfplay.host.exits import Fatal
from azselfplay.host.reading import json_in, open_regular, read_json
from azselfplay.host.runs import Left, RunFolder, left_by, shown_settings
from azselfplay.lab.report.charts import read_ratings

log = logging.getLogger(__name__)

MOST_RUNS = 200
"""Most runs in the list: those that changed last."""

DAMAGED = "run.json is damaged"
"""Shown in place of the game."""

LAST_BYTES = 32_768
"""Bytes read from the end of figures.jsonl: more than two lines."""

FRESH = 150.0
"""A run whose locks cannot be seen from here counts as running for this many seconds after its last figures
or game. While it trains, figures are written at least once a minute."""

PROGRAMS = ("azserver", "trainer")

MOST_FILES = 200

STEP_IN_NAME = re.compile(r"\(step (\d+)\)")
"""The training step in the name of a network (`play.nets.LoadedNet.name`)."""

SHARES = ("rows", "errors", "errors_matter")
"""Fields of `play.truth_errors.Errors`."""

Held = frozenset[tuple[int, int]]


class State(StrEnum):
    """The state of a run."""

    RUNNING = "running"
    ENDED = "ended"
    """Its processes ended cleanly: the figures in the folder are final."""
    SILENT = "silent"
    """Its processes were killed, or have sent nothing for some time."""


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
        why = f"cannot be read ({type(error).__name__}: {error})"[:300]
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


def state_of(run: RunFolder, held: Held) -> State:
    """The state of a run.

    held: `locked_inodes()`.
    """
    locks = [run.lock_of(program) for program in PROGRAMS]
    if any(_is_held(lock, held) for lock in locks):
        return State.RUNNING
    left = [found for lock in locks if (found := left_by(lock)) is not None]
    if Left.KILLED in left:
        return State.SILENT
    if left and Left.ELSEWHERE not in left:
        return State.ENDED
    if time.time() - _grew_at(run) < FRESH:
        return State.RUNNING
    return State.SILENT if left else State.ENDED


def _is_held(lock: Path, held: Held) -> bool:
    """Whether a process here holds the lock. On btrfs the kernel lists locks under another device than `stat`
    gives; there the inode counts if the file also names this machine as its holder's."""
    try:
        found = lock.stat()
    except OSError:
        return False
    if (found.st_dev, found.st_ino) in held:
        return True
    return any(inode == found.st_ino for _, inode in held) and left_by(lock) is Left.KILLED


def locked_inodes() -> Held:
    """(device, inode) of the files that processes hold a lock on. Trying a lock instead could keep a process
    from taking it."""
    found = set()
    with contextlib.suppress(OSError, ValueError):
        for line in Path("/proc/locks").read_text(encoding="ascii").splitlines():
            words = [word for word in line.split() if word != "->"]  # a waiting process
            major, minor, inode = words[5].split(":")
            found.add((os.makedev(int(major, 16), int(minor, 16)), int(inode)))
    return frozenset(found)


def changed_at(run: RunFolder) -> float:
    """When the run's figures or games last changed, seconds since 1970."""
    return max(_grew_at(run), *(modified(path) for path in (run.figures, run.about)))


def _grew_at(run: RunFolder) -> float:
    """When the last figures or games were written, seconds since 1970. Games come into the write-ahead log
    first, and only at times into the store itself. An empty log is of somebody who looked."""
    log = run.games.with_name(run.games.name + "-wal")
    logs = (log,) if log.is_file() and log.stat().st_size else ()
    return max(modified(path) for path in (run.figures_log, run.games, *logs))


def has_final_figures(run: RunFolder) -> bool:
    """Whether `figures.json`, which the trainer writes at a clean end, is newer than the lines before it."""
    return run.figures.exists() and modified(run.figures) >= modified(run.figures_log)


def modified(path: Path) -> float:
    """When the file was last modified, in seconds since 1970; 0 if there is no such file."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def strength_of(run: RunFolder) -> dict[str, Any]:
    """Ratings and errors by training step; empty lists where nothing was measured."""
    return {
        "is_solved": is_solved(run),
        "ladder": ladder(run),
        "fixed": fixed(run),
        "errors": errors(run),
    }


def is_solved(run: RunFolder) -> bool:
    """Whether the best moves of some positions of the run's game are known."""
    try:
        return knowledge_of(get_game(run.describe()["game"])).solution is not None
    except (Fatal, ValueError):
        return False


def ladder(run: RunFolder) -> list[dict[str, Any]]:
    """A row for each rated network: step, hours, games before it, search, Elo and its 95 % margin."""
    rated = read_ratings(run.path / "ratings.json")
    found = []
    for player in rated.players if rated is not None else ():
        if rated is None or player.version is None or player.name not in rated.ratings:
            continue
        rating = rated.ratings[player.name]
        found.append(
            {
                "step": player.step or 0,
                "hours": player.hours,
                "games": player.games_before,
                "search": f"{player.simulations} simulations, {player.search}",
                "label": player.label,
                "elo": rating.elo,
                "margin": rating.margin95,
            }
        )
    return sorted(found, key=lambda row: (row["search"], row["step"]))


def fixed(run: RunFolder) -> list[dict[str, Any]]:
    """The players without a network on the same scale."""
    rated = read_ratings(run.path / "ratings.json")
    if rated is None:
        return []
    found = [
        {"label": player.label, "elo": rated.ratings[player.name].elo}
        for player in rated.players
        if player.version is None and player.name in rated.ratings
    ]
    return sorted(found, key=lambda row: float(row["elo"]))


def errors(run: RunFolder) -> list[dict[str, Any]]:
    """Errors in positions of known truth, from the files `truth*.json` of the run's folder."""
    found: list[dict[str, Any]] = []
    for path in sorted(run.path.glob("truth*.json"))[:MOST_FILES]:
        found += _rows(path)
    unique = {(row["step"], row["search"], row["group"]): row for row in found}
    return sorted(unique.values(), key=lambda row: (row["search"], row["group"], row["step"]))


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    """Rows of one file; from a damaged one those before the damage."""
    try:
        for player in read_json(path)["players"]:
            step = STEP_IN_NAME.search(player["player"])
            if step is None:
                continue
            simulations = player["simulations"]
            search = f"{simulations} simulations, {player['search']}" if simulations else "raw policy"
            for name, group in player["groups"].items():
                yield {
                    "step": int(step[1]),
                    "search": search,
                    "group": name,
                    **{key: group[key] for key in SHARES},
                }
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return
