"""The trainer's figures: for TRAINER_STATUS, the log and TensorBoard. Keys are listed in docs/protocol.md."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from diagnostics.stretches import Stretch, rounded
from net.architectures.registry import TRAINING_HEADS
from runtime.metrics import histogram
from store.rows import Damaged
from store.sqlite import Store, Totals
from trainer.games_rate import GamesRate
from trainer.train_step import HeldOutFigures, StepFigures
from trainer.training_loop import Turn

if TYPE_CHECKING:
    from prometheus_client import Histogram

LOADING = "the window to be loaded"
"""What training waits for before the first turn."""
LEAST_FREE = 1 << 20
"""Bytes; a disk with less than this is full: neither a checkpoint nor weights fit on it."""
OUTCOMES = {1: "first", 0: "draw", -1: "second"}


@dataclass
class Figures:
    """Collects figures from the tasks. Times are seconds on any one clock."""

    started: float
    rate: GamesRate = field(default_factory=lambda: GamesRate(0, 0.0))
    """Games an hour lately."""
    answered: Counter[str] = field(default_factory=Counter)
    """Games since the start, by the status of their answer."""
    commits: Histogram = field(default_factory=histogram)
    """Seconds that checking and committing a batch of games took."""
    trouble: str = ""
    """What is missing for games to be stored (`storing_waits_for`)."""
    turn: Turn | None = None
    steps: StepFigures | None = None
    """Figures of the last turn that made steps."""
    held_out: HeldOutFigures | None = None
    """Held-out figures of the network published last."""
    weights_version: int = 0
    """Newest version the server has stored."""
    samples: int = 0
    architecture: str = ""
    step: int = 0
    """Training steps of the checkpoint; shown before the first turn, as is the next field."""
    loaded: int = 0
    """Positions that have been loaded into the window."""
    rejected: Mapping[str, int] = field(default_factory=dict)
    damaged: Damaged | None = None
    """Stored games that could not be read back."""
    probe_values: Mapping[str, float] = field(default_factory=dict)
    """Values that the network published last gives to positions of known value."""
    known_errors: Mapping[str, float] = field(default_factory=dict)
    """How often its policy errs in positions whose best moves are known, by group."""
    newest_games: Mapping[str, Any] = field(default_factory=lambda: Stretch().figures(None))
    """Properties of the newest games (`diagnostics.game_figures`)."""
    alerts: list[str] = field(default_factory=list)
    """Current signs that the run does not learn."""
    resignation: Mapping[str, float | int | None] = field(default_factory=dict)
    """Threshold and mistakes (`trainer.resign_threshold`), empty when nobody resigns."""

    def begin(
        self, totals: Totals, rejected: Mapping[str, int], damaged: Damaged, architecture: str, step: int
    ) -> None:
        """Begin with an open run, at its checkpoint's `step`. The checker of games keeps counting in
        `rejected` and `damaged`."""
        self.step = step
        self.rate = GamesRate(totals.games.total(), self.started)
        self.rejected = rejected
        self.damaged = damaged
        self.architecture = architecture

    def on_turn(self, turn: Turn, samples: int) -> None:
        self.turn = turn
        self.samples = samples
        self.steps = turn.figures or self.steps

    def as_dict(self, totals: Totals, now: float) -> dict[str, Any]:
        """Return the figures of TRAINER_STATUS."""
        games = totals.games.total()
        steps, held_out = self.steps, self.held_out
        shares = self.turn.outcome_shares if self.turn else {}
        learned_from = self.turn.learned_from if self.turn else 0
        return {
            "games": games,
            "positions": totals.positions,
            "games_by_source": {source: totals.games[source] for source in ("workers", "clients")},
            "versions": {source: len(totals.versions.get(source, ())) for source in ("workers", "clients")},
            "outcomes": {name: totals.outcomes[outcome] for outcome, name in OUTCOMES.items()},
            "reasons": dict(totals.reasons),
            "mean_plies": round(totals.positions / max(games, 1), 2),
            "games_per_h": round(self.rate.per_hour(games, now), 1),
            "window_positions": self.turn.window_positions if self.turn else self.loaded,
            "step": self.turn.step if self.turn else self.step,
            "policy_loss": round(steps.policy_loss, 5) if steps else None,
            "value_loss": round(steps.value_loss, 5) if steps else None,
            "held_out_policy_loss": round(held_out.policy_loss, 5) if held_out else None,
            "held_out_value_loss": round(held_out.value_loss, 5) if held_out else None,
            **_of_heads("", steps),
            **_of_heads("held_out_", held_out),
            "value_spread": round(held_out.value_spread, 5) if held_out else None,
            "value_material_r": rounded(held_out.material_r) if held_out else None,
            "probe_values": {name: round(value, 4) for name, value in self.probe_values.items()},
            "known_errors": {name: round(share, 4) for name, share in self.known_errors.items()},
            "policy_entropy": round(steps.policy_entropy, 5) if steps else None,
            "gradient_norm": round(steps.gradient_norm, 5) if steps else None,
            "weight_norm": round(self.turn.weight_norm, 4) if self.turn else None,
            "window_outcomes": {name: rounded(shares.get(outcome)) for outcome, name in OUTCOMES.items()},
            **self.newest_games,
            "samples_per_position": round(self.samples / max(learned_from, 1), 3),
            "weights_version": self.weights_version,
            "rejected": dict(self.rejected),
            "architecture": self.architecture,
            "damaged": self.damaged.count if self.damaged else 0,
            "waiting_for": self.trouble or (self.turn.waiting_for if self.turn else LOADING),
            "alerts": list(self.alerts),
            "resignation": dict(self.resignation),
        }


def storing_waits_for(store: Store, folder: Path) -> str:
    """Return what is missing for games to be stored, as text for people; "" where nothing is. Where players
    share a full disk with the trainer, no game comes that the store could refuse."""
    if store.trouble:
        return f"games to be stored: {store.trouble}"
    try:
        free = shutil.disk_usage(folder).free
    except OSError as error:
        return f"its folder {folder}: {error.strerror}"
    return f"room on the disk of {folder}, which is full: free some space" if free < LEAST_FREE else ""


def _of_heads(prefix: str, losses: StepFigures | HeldOutFigures | None) -> dict[str, float | None]:
    """Losses of the training heads by name, None where there are none."""
    found = losses.heads if losses else {}
    return {f"{prefix}{head}_loss": rounded(found.get(head)) for head in TRAINING_HEADS}


def log_line(figures: Mapping[str, Any]) -> str:
    """Return one plain line with the most important figures."""
    loss = "no step since the start" if figures["step"] else "no step yet"
    if figures["policy_loss"] is not None:
        loss = f"policy loss {figures['policy_loss']:.3f}, value loss {figures['value_loss']:.3f}"
    if figures["held_out_policy_loss"] is not None:
        held_out = (figures["held_out_policy_loss"], figures["held_out_value_loss"])
        loss += f" (held out: {held_out[0]:.3f}, {held_out[1]:.3f})"
    line = (
        f"{figures['games']:,} games, {figures['positions']:,} positions, step {figures['step']:,}, {loss}, "
        f"weights {figures['weights_version']}"
    )
    if figures["rejected"]:
        line += f", rejected {figures['rejected']}"
    if figures["damaged"]:
        line += f", {figures['damaged']} damaged games left out"
    return line + (f"; waiting for {figures['waiting_for']}" if figures["waiting_for"] else "")


def scalars(figures: Mapping[str, Any]) -> dict[str, float]:
    """Return the numbers among the figures, nested ones as `name/key`, for TensorBoard."""
    flat: dict[str, float] = {}
    for name, value in figures.items():
        entries = value.items() if isinstance(value, Mapping) else [("", value)]
        for key, number in entries:
            if isinstance(number, int | float):
                flat[f"{name}/{key}" if key else f"trainer/{name}"] = float(number)
    return flat
