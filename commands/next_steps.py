"""What azrun tells a person at its start and at its end, with the paths of this very run."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path

from commands.azrun_config import RunConfig
from runtime.extras import EXTRAS, is_installed
from runtime.finding import RUNS
from runtime.runs import RunFolder

SHOWN = (
    ("play", "play against it"),
    ("web", "curves, games and a board in the browser, at http://127.0.0.1:8000"),
    ("report", "one page on the run, with alerts"),
    ("ladder", "how strong it is: Elo over training"),
    ("games", "its games"),
)
"""Commands of azplay that take a run, and what they are for."""
ARGUMENTS = {"games": " list --newest 20"}


def beginning(settings: RunConfig, folder: RunFolder, port: int) -> list[str]:
    """What is started, where to look, and what happens next."""
    exists = folder.about.exists()
    look = next(name for name, _ in SHOWN if name in ("web", "report") and _is_usable(name))
    return [
        f"{'Goes on with' if exists else 'Begins'} the run {folder.name}: {settings.game}, "
        f"network {settings.net}, port {port}.",
        f"Folder: {folder.path}   logs: {folder.logs}",
        f"To look at it in another terminal: {azplay()} {look} {_run(settings, folder)}",
        "Next: the rules and the search are compiled (a minute or two the first time), games begin, and "
        "training begins when there are enough of them.",
        _ending(settings),
    ]


def _ending(settings: RunConfig) -> str:
    when = f"It ends by itself after {settings.minutes:g} minutes; " if settings.minutes else ""
    return f"{when}Ctrl-C ends it cleanly, and the same command goes on with it."


def ending(settings: RunConfig, folder: RunFolder) -> list[str]:
    """What to do with the run now."""
    run = _run(settings, folder)
    rows = [
        (f"{azplay()} {name} {run}{ARGUMENTS.get(name, '')}", why) for name, why in SHOWN if _is_usable(name)
    ]
    rows.append((_again(), "go on with it"))
    width = max(len(command) for command, _ in rows)
    return [
        f"The run {folder.name} is in {folder.path}. Next:",
        *(f"  {command:{width}}   {why}" for command, why in rows),
    ]


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
