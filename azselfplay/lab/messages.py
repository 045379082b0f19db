"""What azrun tells a person: at the start what begins and where to look, on the way what is new, one line
each, and at the end what was finished and what to do with it. All but `compile_seconds` is pure.

News are found by comparing the figures of STATUS with the last ones (`Milestones`), so nothing in the parts
has to report them. Errors are read from the parts' own logs and from how they ended (`Troubles`): the last
one of a part counts until the part has gone on without another.
"""

from __future__ import annotations

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
from typing import TYPE_CHECKING, Any

from azselfplay.diagnostics.advice import told
from azselfplay.host.exits import EXTRAS, Exit, is_installed
from azselfplay.host.processes import describe_exit
from azselfplay.host.runs import RunFolder
from azselfplay.lab.azrun_config import RunConfig
from azselfplay.link.finding import RUNS
from client.spool import SUFFIX

if TYPE_CHECKING:
    from server.config import ServerConfig

SHOWN = (
    ("play", "play against it"),
    ("web", "see curves and games, and play, in the browser at http://127.0.0.1:8000"),
    ("report", "one page on the run, with alerts"),
)
"""Commands of azplay that take a run, and their purpose, the best first."""

LOOKS = 2
"""Number of these that are named at the end."""

SHARE = 1 / 3
"""Share of `--minutes` from which on a warning is printed at the start. On a busy machine compiling takes up
to three times as long as expected."""

FRESH = 120.0
"""Seconds for which an error counts as not mended. A part that fails again and again does so more often."""

_LOGGED = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d E \S+  (.*)")
"""A line of the log about an error (`host.logs.FORMAT`)."""

Figures = Mapping[str, Any]
"""Keys as in docs/protocol.md; any may be missing."""


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


def compile_seconds(server: ServerConfig) -> float:
    """Seconds that azserver will compile with these settings, as far as known on this machine; 0: nothing to
    compile."""
    from azselfplay.games import get_game
    from azselfplay.search.warm import Compiled
    from net.sparse import code_name

    game = get_game(server.game)
    compiled = Compiled(game, server.self_play.search.selection, network=code_name(game, server.net))
    return 0.0 if compiled.is_ready else compiled.expected_seconds


def warning(settings: RunConfig, seconds: float) -> list[str]:
    """A warning for the start that little time is left for games. `seconds`: from `compile_seconds`."""
    if not settings.minutes or seconds <= SHARE * 60 * settings.minutes:
        return []
    return [
        f"WARNING: --minutes {settings.minutes:g} is short: compiling the search of {settings.game} counts, "
        f"and takes about {seconds:.0f} s here, more on a busy machine. --minutes "
        f"{longer(settings.minutes, seconds)} leaves time for games and training."
    ]


# ---- On the way ---------------------------------------------------------------------------------


class Milestones:
    """Compares each set of figures with the previous ones."""

    def __init__(self) -> None:
        self._prepares = ""
        self._plays = False
        self._games = False
        """Whether there were games already; the next field says it of steps."""
        self._steps = False
        self._version: int | None = None
        self._goes_on = False
        """Whether the run had weights when it was started: then its first games and steps are not news."""
        self._has_trainer = False
        self._alerts: tuple[str, ...] = ()

    def lines(self, figures: Figures) -> list[str]:
        """What is new in `figures`, in the order in which it happens."""
        trainer: Figures = figures.get("trainer") or {}
        sessions: Figures = figures.get("sessions") or {}
        if self._version is None:
            self._goes_on = bool(figures.get("weights_version"))
        return [
            *self._preparing(figures),
            *self._playing(sessions),
            *self._trainer(sessions, trainer),
            *self._first_games(trainer),
            *self._first_steps(trainer),
            *self._weights(figures, trainer),
            *self._alerted(trainer),
        ]

    def _preparing(self, figures: Figures) -> list[str]:
        """Compiling: its start with the expected time, and the time that it took."""
        before, self._prepares = self._prepares, str(figures.get("preparing") or "")
        if self._prepares == before:
            return []
        if self._prepares:
            return [self._prepares]
        return [f"the search is ready after {figures.get('preparing_s') or 0:.0f} s"]

    def _playing(self, sessions: Figures) -> list[str]:
        if self._plays or not (sessions.get("workers") or sessions.get("clients")):
            return []
        self._plays = True
        return ["self-play has begun"]

    def _trainer(self, sessions: Figures, trainer: Figures) -> list[str]:
        there, before = bool(sessions.get("trainer")), self._has_trainer
        self._has_trainer = there
        if there == before:
            return []
        if not there:
            return ["the trainer is gone; finished games wait on disk until it is back"]
        waiting_for = trainer.get("waiting_for")
        return [f"the trainer is there{f', and waits for {waiting_for}' if waiting_for else ''}"]

    def _first_games(self, trainer: Figures) -> list[str]:
        games = trainer.get("games") or 0
        if self._games or not games:
            return []
        self._games = True
        if self._goes_on:
            return [f"{games:,} games are stored from before"]
        return [f"the first games are finished and stored: {games:,}"]

    def _first_steps(self, trainer: Figures) -> list[str]:
        step = trainer.get("step") or 0
        if self._steps or not step:
            return []
        self._steps = True
        if self._goes_on:
            return [f"training goes on from step {step:,}"]
        return [f"training has begun: step {step:,}"]

    def _weights(self, figures: Figures, trainer: Figures) -> list[str]:
        version, before = figures.get("weights_version"), self._version
        if version is None or version == before:
            return []
        self._version = version
        if before is None:
            return [f"goes on with weights {version}"] if version else []
        losses = [trainer.get(key) for key in ("policy_loss", "value_loss")]
        known = None not in losses
        loss = f", loss {losses[0]:.3f} (policy) and {losses[1]:.3f} (value)" if known else ""
        return [
            f"weights {version} play now: {trainer.get('games') or 0:,} games, "
            f"step {trainer.get('step') or 0:,}{loss}"
        ]

    def _alerted(self, trainer: Figures) -> list[str]:
        alerts = tuple(str(text) for text in trainer.get("alerts") or ())
        before, self._alerts = self._alerts, alerts
        # The text of an alert contains figures that change; its first words identify it.
        known = {_about(text) for text in before}
        return [f"ALERT {told(text)}" for text in alerts if _about(text) not in known]


def _about(alert: str) -> str:
    return alert.partition(":")[0]


@dataclass(frozen=True)
class Trouble:
    """An error of a part."""

    text: str
    at: float
    step: int
    """The step of training at that time."""
    code: int | None = None
    """The exit status if the part ended by it."""
    at_end: bool = False
    """Whether it had been asked to end, so that nothing came after it."""


class Troubles:
    """The last error of each part, from its log and from how it ended. Pure; times in seconds."""

    def __init__(self) -> None:
        self._last: dict[str, Trouble] = {}
        self._parts: dict[str, bytes] = {}

    def said(self, part: str, output: bytes, now: float, step: int) -> list[str]:
        """Read what a part prints. Returns the errors in it that are not those of before."""
        *lines, self._parts[part] = (self._parts.get(part, b"") + output)[-65_536:].split(b"\n")
        new = []
        for line in lines:
            text = _logged_error(line.decode(errors="replace").strip())
            if not text:
                continue
            if part not in self._last or self._last[part].text != text:
                new.append(f"{part}: {text}")
            self._last[part] = Trouble(text, now, step)
        return new

    def ended(self, part: str, code: int, why: str, now: float, step: int, *, asked: bool = False) -> None:
        """Note how a process of a part ended. `why`: its last line about an error, or ""."""
        if asked and code in (Exit.OK, -signal.SIGTERM):
            return
        more = f": {why}" if why else ""
        if not why and code == -signal.SIGKILL and not asked:
            more = ": the machine may lack memory (`dmesg` says so)"
        self._last[part] = Trouble(f"{describe_exit(code)}{more}", now, step, code, asked)

    def current(self, now: float) -> dict[str, str]:
        """The errors that are not known to be over, by part."""
        return {part: one.text for part, one in self._last.items() if now - one.at < FRESH}

    def of_training(self, now: float, step: int, begun: int) -> tuple[str, Exit] | None:
        """Why training failed, and the exit status for it; None if it did not. `begun` and `step`: the steps
        at the begin and at the end."""
        for part in ("trainer", "server", "client"):
            one = self._last.get(part)
            if one is None or now - one.at >= FRESH:
                continue
            if one.at_end or step <= (one.step if part == "trainer" else begun):
                code = next((known for known in Exit if known and known == one.code), Exit.FOUND)
                return f"{part}: {one.text}", code
        return None


# ---- At the end ---------------------------------------------------------------------------------


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


def _minutes(settings: RunConfig) -> str:
    return f"{settings.minutes:g} minute{'' if settings.minutes == 1 else 's'}"


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


def longer(minutes: float, seconds: float) -> int:
    """Suggested minutes for a run that was given `minutes`, of which `seconds` go into compiling."""
    return int(2 * minutes + 2 * seconds / 60) + 1


def _logged_error(line: str) -> str:
    """The text of a line of the log about an error, in either format; "" for other lines."""
    if line.startswith("{"):
        try:
            found = json.loads(line)
            return str(found["event"]) if found["level"] == "error" else ""
        except (ValueError, KeyError, TypeError):
            return ""
    match = _LOGGED.match(line)
    return match[1] if match else ""
