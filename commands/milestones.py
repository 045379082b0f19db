"""Events of a run that a person wants to know, one line each, found in the figures of STATUS. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from diagnostics.advice import told

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
