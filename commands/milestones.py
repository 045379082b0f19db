"""Events of a run that a person wants to know, one line each, found in the figures of STATUS. Pure."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from diagnostics.advice import told
from runtime.exits import Exit
from runtime.processes import describe_exit

Figures = Mapping[str, Any]
"""Keys as in docs/protocol.md; any may be missing."""


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


FRESH = 120.0
"""Seconds for which an error counts as not mended. A part that fails again and again does so more often."""
_LOGGED = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d E \S+  (.*)")
"""A line of the log about an error (`runtime.logs.FORMAT`)."""


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
