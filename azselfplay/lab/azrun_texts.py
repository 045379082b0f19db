"""Texts of azrun for people. The start says what begins and where to look; then there is one line for each
new event; the end says what was finished and what to do with it. All functions are pure.

`Milestones` finds new events by comparing the figures of STATUS with the previous ones, so the parts do not
have to report events. `Failures` reads errors from the parts' own logs and exit codes; the last error of a
part counts until the part has worked for a while without another.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from azselfplay.diagnostics.advice import with_advice
from azselfplay.host.exits import EXTRAS, Exit, is_installed
from azselfplay.host.processes import describe_exit
from azselfplay.host.runs import RunFolder
from azselfplay.lab.azrun_config import RunConfig
from azselfplay.link.finding import RUNS
from client.spool import REJECTED, SUFFIX

SHOWN = (
    ("play", "play against it"),
    ("web", "see curves and games, and play, in the browser at http://127.0.0.1:8000"),
    ("report", "one page on the run, with alerts"),
)
"""Commands of azplay that take a run, and their purpose, the best first."""

LOOKS = 2
"""Number of commands from SHOWN that are named at the end."""

FRESH = 120.0
"""Seconds for which an error counts as unsolved. A part that keeps failing fails more often than this."""

# A date and an E (error), as in the format of text logs.
_LOGGED = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d E .+?  (.*)")
"""Matches a log line about an error (`host.logs.FORMAT`)."""

Figures = Mapping[str, Any]
"""Figures by the keys of docs/protocol.md; any key may be missing."""


def beginning(settings: RunConfig, folder: RunFolder, port: int) -> list[str]:
    """Return lines about what is started, where to look, and what happens next. `folder` need not exist
    yet."""
    exists = folder.about.exists()
    # `web` needs packages that may be missing; `report` always works.
    look = next(name for name, _ in SHOWN if name in ("web", "report") and _is_usable(name))
    comes = "Next: games begin again, and training goes on from step {:,}."
    if not (step := folder.read_figures().get("step") or 0):
        comes = (
            "Next: the search is compiled for this game if necessary (up to two minutes), games begin, and "
            "training begins when there are enough of them."
        )
    watch = f", in another terminal: {_command('azplay', elsewhere=True)} {look} {_run(settings, folder)}"
    if settings.web:
        watch = f": http://127.0.0.1:{settings.web}/run/{folder.name}"
    when = f"It ends by itself after {_minutes(settings)}; " if settings.minutes else ""
    return [
        f"{'Continuing' if exists else 'Beginning'} the run {folder.name}: {settings.game}, "
        f"network {settings.net}, port {port}.",
        f"Folder: {folder.path}   logs: {folder.logs}",
        f"To watch it{watch}",
        comes.format(step),
        f"{when}Ctrl-C ends it cleanly, and the same command continues it.",
    ]


# ---- On the way ---------------------------------------------------------------------------------


class Milestones:
    """Compares each set of figures with the previous ones."""

    def __init__(self) -> None:
        self._prepares = ""
        self._plays = False
        self._games = False
        """Whether there have been games; the next field is the same for training steps."""
        self._steps = False
        self._version: int | None = None
        self._goes_on = False
        """Whether the run already had weights at its start; then first games and steps are not new events."""
        self._has_trainer = False
        self._alerts: set[str] = set()
        """The names of the alerts."""

    def lines(self, figures: Figures) -> list[str]:
        """Return lines about what is new in `figures`, in the order in which events happen."""
        trainer: Figures = figures.get("trainer") or {}
        sessions: Figures = figures.get("sessions") or {}
        games, step = trainer.get("games") or 0, trainer.get("step") or 0
        new: list[str] = []

        # azserver sends the text with the expected time; the text is empty again once everything is compiled.
        prepares = str(figures.get("preparing") or "")
        if prepares != self._prepares:
            new.append(prepares or f"ready after {figures.get('preparing_s') or 0:.0f} s")
            self._prepares = prepares
        if not self._plays and (sessions.get("workers") or sessions.get("clients")):
            self._plays = True
            new.append("self-play has begun")

        has_trainer, waits_for = bool(sessions.get("trainer")), trainer.get("waiting_for")
        if has_trainer and not self._has_trainer:
            new.append(f"the trainer is there{f', and waits for {waits_for}' if waits_for else ''}")
        # Only a trainer that was there before can be gone.
        elif self._has_trainer and not has_trainer:
            new.append("the trainer is gone; finished games wait on disk until it is back")
        self._has_trainer = has_trainer

        version, before = figures.get("weights_version"), self._version
        # Only the first figures show whether the run is continued.
        if before is None:
            self._goes_on = bool(version)
        if games and not self._games:
            self._games = True
            first = f"the first games are finished and stored: {games:,}"
            new.append(f"{games:,} games are stored from before" if self._goes_on else first)
        if step and not self._steps:
            self._steps = True
            how = "training goes on from" if self._goes_on else "training has begun:"
            new.append(f"{how} step {step:,}")
        if version is not None and version != before:
            self._version = version
            losses = [trainer.get(key) for key in ("policy_loss", "value_loss")]
            loss = "" if None in losses else f", loss {losses[0]:.3f} (policy) and {losses[1]:.3f} (value)"
            if before is not None:
                new.append(f"weights {version} play now: {games:,} games, step {step:,}{loss}")
            elif version:
                new.append(f"goes on with weights {version}")

        # The text of an alert contains changing figures; its name before the colon identifies it.
        alerts = {str(text).partition(":")[0]: str(text) for text in trainer.get("alerts") or ()}
        new += [f"ALERT {with_advice(text)}" for name, text in alerts.items() if name not in self._alerts]
        self._alerts = set(alerts)
        return new


@dataclass(frozen=True)
class Failure:
    """An error of a part."""

    text: str
    at: float
    step: int
    """The step of training at that time."""
    code: int | None = None
    """The exit status if the error ended the part."""
    at_end: bool = False
    """Whether the part had already been asked to end."""


class Failures:
    """The last error of each part, from its log and from its exit code. Pure; times are in seconds."""

    def __init__(self) -> None:
        self._last: dict[str, Failure] = {}
        self._parts: dict[str, bytes] = {}

    def on_output(self, part: str, output: bytes, now: float, step: int) -> list[str]:
        """Read the output of a part. Returns the new errors in it: those that differ from the part's last
        error."""
        # The last piece waits for its newline. Its length is bounded, because a part may print anything.
        *lines, self._parts[part] = (self._parts.get(part, b"") + output)[-65_536:].split(b"\n")
        new = []
        for line in lines:
            # A part logs errors as text or as JSON, depending on its settings (`host.logs`).
            words, text = line.decode(errors="replace").strip(), ""
            if words.startswith("{"):
                with contextlib.suppress(ValueError, KeyError, TypeError):
                    found = json.loads(words)
                    text = str(found["event"]) if found["level"] == "error" else ""
            elif match := _LOGGED.match(words):
                text = match[1]
            if not text:
                continue
            # A part that tries again every second repeats the same error.
            if part not in self._last or self._last[part].text != text:
                new.append(f"{part}: {text}")
            self._last[part] = Failure(text, now, step)
        return new

    def ended(self, part: str, code: int, why: str, now: float, step: int, *, asked: bool = False) -> None:
        """Note how a part's process ended. `why`: its last line about an error, or ""."""
        # SIGTERM is how a part is asked to end.
        if asked and code in (Exit.OK, -signal.SIGTERM):
            return
        more = f": {why}" if why else ""
        # A SIGKILL without an error message usually comes from the kernel when memory is full.
        if not why and code == -signal.SIGKILL and not asked:
            more = ": the machine may lack memory (`dmesg` says so)"
        self._last[part] = Failure(f"{describe_exit(code)}{more}", now, step, code, asked)

    def current(self, now: float) -> dict[str, str]:
        """Return the errors that still count as unsolved, by part."""
        return {part: one.text for part, one in self._last.items() if now - one.at < FRESH}

    def of_training(self, now: float, step: int, first_step: int) -> tuple[str, Exit] | None:
        """Return why training failed, and the exit status for it; None if it did not fail. `first_step` and
        `step`: the training steps at the beginning and at the end."""
        # Look at the most important part first: without a trainer nothing is learned, whatever else failed.
        for part in ("trainer", "server", *sorted(self._last.keys() - {"trainer", "server"})):
            one = self._last.get(part)
            if one is None or now - one.at >= FRESH:
                continue
            # A trainer that made steps after its error has recovered. Other parts count only if the run made
            # no steps at all.
            if one.at_end or step <= (one.step if part == "trainer" else first_step):
                code = next((known for known in Exit if known and known == one.code), Exit.FOUND)
                return f"{part}: {one.text}", code
        return None


# ---- At the end ---------------------------------------------------------------------------------


def ending(
    settings: RunConfig, folder: RunFolder, figures: Mapping[str, Any], failure: str = ""
) -> list[str]:
    """Return lines about what was finished, where it is, and what to do with it now. `figures`: the last
    figures, {} if there are none. `failure`: why training failed, if it did."""
    run, trainer = _run(settings, folder), figures.get("trainer") or {}
    games, step, version = (trainer.get(key) or 0 for key in ("games", "step", "weights_version"))
    done = "Ended. No game was stored yet."
    if games:
        newest = f" The newest weights are version {version:,}." if version else ""
        done = f"Ended. {games:,} games and {step:,} training steps are stored.{newest}"
    # Waiting games are not lost, but a person who counts games would miss them.
    if waiting := sum(path.parent.name != REJECTED for path in folder.spool.rglob(f"*{SUFFIX}")):
        done += f" Finished games that wait on disk until the run goes on: {waiting:,}."
    lines = [done]
    # A short run may end before its client has played, because the client starts only after azserver's own
    # workers.
    sources = trainer.get("games_by_source") or {}
    if settings.client_workers and sources.get("workers") and not sources.get("clients"):
        lines.append(
            "All these games are of azserver's own workers: azclient starts after them, and has finished "
            "none yet."
        )
    rows = [(f"{_command('azplay')} {name} {run}", why) for name, why in SHOWN if _is_usable(name)][:LOOKS]
    if failure:
        lines += [f"Training FAILED. {failure}", f"The logs in {folder.logs} have the whole story."]
        rows.append((_again(), "continue it, once that is mended"))
    elif step:
        rows.append((_again(), "continue it"))
    else:  # nobody plays against an untrained network
        time = _minutes(settings) if settings.minutes else "this time"
        more = " Give it more --minutes." if settings.minutes else ""
        lines.append(
            f"The network is untrained: {time} was too short for training to begin. The first start "
            f"compiles the search, too; the next one only loads it.{more}"
        )
        rows = [(_again(), "continue it")]
    width = max(len(command) for command, _ in rows)
    return [
        *lines,
        f"The run {folder.name} is in {folder.path}. Next:",
        *(f"  {command:{width}}   {why}" for command, why in rows),
    ]


def _minutes(settings: RunConfig) -> str:
    return f"{settings.minutes:g} minute{'' if settings.minutes == 1 else 's'}"


def _is_usable(command: str) -> bool:
    """Return whether the packages that the command needs in addition to azrun's are installed."""
    return command != "web" or all(is_installed(package) for package in EXTRAS["web"])


def _command(name: str, *, elsewhere: bool = False) -> str:
    """Return how the user can call a command of ours: by name if the shell finds it, else by the path beside
    azrun. `elsewhere`: in another shell, which may not have the folder on its PATH."""
    # Without an activated environment, the shell does not find our commands, but they are in azrun's folder.
    beside = Path(sys.argv[0]).parent / name
    is_found = shutil.which(name, path=os.defpath if elsewhere else None)
    if is_found or not os.access(beside, os.X_OK):
        return name
    return shlex.quote(str(beside))


def _run(settings: RunConfig, folder: RunFolder) -> str:
    """Return the run as other commands accept it: its name if they look in the same folder, else its path."""
    return folder.name if settings.runs == RUNS else shlex.quote(str(folder.path))


def _again() -> str:
    """Return the command that the user gave, which continues the same run."""
    # azrun, or azcluster.
    return f"{_command(Path(sys.argv[0]).stem)} {shlex.join(sys.argv[1:])}".rstrip()
