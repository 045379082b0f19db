"""What azrun tells a person at its start and at its end, with the paths of this very run."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from client.spool import SUFFIX
from commands.azrun_config import RunConfig
from runtime.extras import EXTRAS, is_installed
from runtime.finding import RUNS
from runtime.runs import RunFolder

SHOWN = (
    ("play", "play against it"),
    ("web", "curves, games and a board in the browser, at http://127.0.0.1:8000"),
    ("report", "one page on the run, with alerts"),
)
"""Commands of azplay that take a run, and what they are for, the best first."""
LOOKS = 2
"""Of these are named at the end."""


def beginning(settings: RunConfig, folder: RunFolder, port: int) -> list[str]:
    """What is started, where to look, and what happens next."""
    exists = folder.about.exists()
    look = next(name for name, _ in SHOWN if name in ("web", "report") and _is_usable(name))
    return [
        f"{'Goes on with' if exists else 'Begins'} the run {folder.name}: {settings.game}, "
        f"network {settings.net}, port {port}.",
        f"Folder: {folder.path}   logs: {folder.logs}",
        f"To look at it in another terminal: {azplay()} {look} {_run(settings, folder)}",
        "Next: the search is compiled for this game, games begin, and training begins when there are enough "
        "of them.",
        _ending(settings),
    ]


def _ending(settings: RunConfig) -> str:
    when = f"It ends by itself after {settings.minutes:g} minutes; " if settings.minutes else ""
    return f"{when}Ctrl-C ends it cleanly, and the same command goes on with it."


def ending(settings: RunConfig, folder: RunFolder, trainer: Mapping[str, Any]) -> list[str]:
    """What was finished, where it is, and what to do with it now. `trainer`: its figures, {} for none."""
    run = _run(settings, folder)
    rows = [(f"{azplay()} {name} {run}", why) for name, why in SHOWN if _is_usable(name)][:LOOKS]
    rows.append((_again(), "go on with it"))
    width = max(len(command) for command, _ in rows)
    return [
        _finished(folder, trainer),
        f"The run {folder.name} is in {folder.path}. Next:",
        *(f"  {command:{width}}   {why}" for command, why in rows),
    ]


def _finished(folder: RunFolder, trainer: Mapping[str, Any]) -> str:
    games, step, version = (trainer.get(key) or 0 for key in ("games", "step", "weights_version"))
    waiting = sum(1 for _ in folder.spool.rglob(f"*{SUFFIX}"))
    more = f" Finished games that wait on disk until the run goes on: {waiting:,}." if waiting else ""
    if not games:
        return f"Ended. No game was stored yet.{more}"
    newest = f" The newest weights are version {version:,}." if version else ""
    return f"Ended. {games:,} games and {step:,} training steps are stored.{newest}{more}"


def _is_usable(command: str) -> bool:
    """Whether its packages are installed, beyond those of azrun."""
    return command != "web" or all(is_installed(package) for package in EXTRAS["web"])


def azplay() -> str:
    """How this person can call azplay: by its name if that finds it, else by the path beside azrun."""
    return _command("azplay")


def _command(name: str) -> str:
    beside = Path(sys.argv[0]).parent / name
    if shutil.which(name) or not os.access(beside, os.X_OK):
        return name
    return shlex.quote(str(beside))


def _run(settings: RunConfig, folder: RunFolder) -> str:
    """The run as other commands take it: by name where they look for it, else by its folder."""
    return folder.name if settings.runs == RUNS else shlex.quote(str(folder.path))


def _again() -> str:
    """The command that was given: it goes on with the same run."""
    return f"{_command('azrun')} {shlex.join(sys.argv[1:])}".rstrip()
