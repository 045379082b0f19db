"""What azrun tells a person at its start and at its end, with the paths of this run."""

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
from commands.compile_share import longer
from runtime.exits import EXTRAS, is_installed
from runtime.finding import RUNS
from runtime.runs import RunFolder

SHOWN = (
    ("play", "play against it"),
    ("web", "see curves and games, and play, in the browser at http://127.0.0.1:8000"),
    ("report", "one page on the run, with alerts"),
)
"""Commands of azplay that take a run, and their purpose, the best first."""
LOOKS = 2
"""Number of these that are named at the end."""


def beginning(settings: RunConfig, folder: RunFolder, port: int) -> list[str]:
    """What is started, where to look, and what happens next."""
    exists = folder.about.exists()
    look = next(name for name, _ in SHOWN if name in ("web", "report") and _is_usable(name))
    return [
        f"{'Continuing' if exists else 'Beginning'} the run {folder.name}: {settings.game}, "
        f"network {settings.net}, port {port}.",
        f"Folder: {folder.path}   logs: {folder.logs}",
        f"To watch it, in another terminal: {azplay(elsewhere=True)} {look} {_run(settings, folder)}",
        _what_comes(folder),
        _ending(settings),
    ]


def _what_comes(folder: RunFolder) -> str:
    """What happens next. `folder` need not exist yet."""
    step = folder.read_figures().get("step") or 0
    if step:
        return f"Next: games begin again, and training goes on from step {step:,}."
    return (
        "Next: the search is compiled for this game if necessary, games begin, and training begins when "
        "there are enough of them."
    )


def _ending(settings: RunConfig) -> str:
    when = f"It ends by itself after {_minutes(settings)}; " if settings.minutes else ""
    return f"{when}Ctrl-C ends it cleanly, and the same command continues it."


def _minutes(settings: RunConfig) -> str:
    return f"{settings.minutes:g} minute{'' if settings.minutes == 1 else 's'}"


def ending(
    settings: RunConfig, folder: RunFolder, figures: Mapping[str, Any], failure: str = ""
) -> list[str]:
    """What was finished, where it is, and what to do with it now. `figures`: the last ones, {} for none.
    `failure`: why training failed, if it did."""
    run, trainer = _run(settings, folder), figures.get("trainer") or {}
    rows = [(f"{azplay()} {name} {run}", why) for name, why in SHOWN if _is_usable(name)][:LOOKS]
    rows.append((_again(), "continue it"))
    too_short = []
    if failure:
        too_short = [f"Training FAILED. {failure}", f"The logs in {folder.logs} have the whole story."]
        rows[-1] = (_again(), "continue it, once that is mended")
    elif not trainer.get("step"):
        too_short = [_too_short(settings, figures)]
        rows = [(_again_longer(settings, _prepared(figures)), "continue it")]
    width = max(len(command) for command, _ in rows)
    return [
        _finished(folder, trainer),
        *_without_client(settings, trainer),
        *too_short,
        f"The run {folder.name} is in {folder.path}. Next:",
        *(f"  {command:{width}}   {why}" for command, why in rows),
    ]


def _too_short(settings: RunConfig, figures: Mapping[str, Any]) -> str:
    """Why nothing has been learned yet, with what the time was spent on."""
    seconds, spent = _prepared(figures), ""
    if figures.get("preparing"):
        spent = (
            f": it ended while the search was being compiled, after {seconds:.0f} s. The parts that were "
            "ready are kept, and the next start compiles the others"
        )
    elif seconds:
        spent = (
            f": getting the search ready took {seconds:.0f} s of it. The next start loads what was compiled"
        )
    time = _minutes(settings) if settings.minutes else "this time"
    more = " Give it more --minutes." if settings.minutes else ""
    return f"The network is untrained: {time} was too short for training to begin{spent}.{more}"


def _prepared(figures: Mapping[str, Any]) -> float:
    """Seconds in which azserver loaded or compiled the search."""
    return float(figures.get("preparing_s") or 0.0)


def _without_client(settings: RunConfig, trainer: Mapping[str, Any]) -> list[str]:
    """A note that azclient has finished nothing, which happens at the end of a short run."""
    games = trainer.get("games_by_source") or {}
    if not settings.client_workers or not games.get("workers") or games.get("clients"):
        return []
    return [
        "All these games are of azserver's own workers: azclient starts after them, and has finished none "
        "yet."
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
    """Whether the command's packages are installed, beyond those of azrun."""
    return command != "web" or all(is_installed(package) for package in EXTRAS["web"])


def azplay(*, elsewhere: bool = False) -> str:
    """How this person can call azplay: by its name if the shell finds it, else by the path beside azrun.
    `elsewhere`: in another shell, which need not have its folder on the PATH."""
    return _command("azplay", elsewhere=elsewhere)


def _command(name: str, *, elsewhere: bool = False) -> str:
    beside = Path(sys.argv[0]).parent / name
    is_found = shutil.which(name, path=os.defpath if elsewhere else None)
    if is_found or not os.access(beside, os.X_OK):
        return name
    return shlex.quote(str(beside))


def _run(settings: RunConfig, folder: RunFolder) -> str:
    """The run as other commands accept it: by name where they look for it, else by its folder."""
    return folder.name if settings.runs == RUNS else shlex.quote(str(folder.path))


def _again() -> str:
    """The command that was given: it continues the same run."""
    return f"{_command('azrun')} {shlex.join(sys.argv[1:])}".rstrip()


def _again_longer(settings: RunConfig, seconds: float) -> str:
    """Like `_again`, with more `--minutes` if some were given: `seconds` went into compiling."""
    if not settings.minutes:
        return _again()
    flag, more = "--minutes", str(longer(settings.minutes, seconds))
    before = ("", *sys.argv[1:])
    kept = [
        word
        for word, last in zip(sys.argv[1:], before, strict=False)
        if word != flag and last != flag and not word.startswith(f"{flag}=")
    ]
    return f"{_command('azrun')} {shlex.join([*kept, flag, more])}"
