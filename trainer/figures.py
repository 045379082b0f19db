"""The trainer's figures: for TRAINER_STATUS, the log, Prometheus, and curves over the training step.

`Figures` collects them, and `as_dict` is the only place that names them (docs/protocol.md lists the keys);
everything else reads that dictionary. `METRICS` shows them to Prometheus. `Curves` writes them against the
step: event files for `tensorboard --logdir runs/NAME/tensorboard`, and JSON lines for `azplay report NAME`.
Both are written one whole point at a time, so a full disk loses only that point, and never stops the trainer.
Points are close together at first and further apart later, so the files stay small in a long run.
"""

from __future__ import annotations

import io
import json
import logging
import os
import shutil
import socket
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from azselfplay.diagnostics.advice import ADVICE
from azselfplay.diagnostics.alerts import Watch
from azselfplay.diagnostics.stretches import Stretch, rounded
from azselfplay.host.logs import append_whole
from azselfplay.host.metrics import Metric, Rate, Watched, histogram
from azselfplay.store.rows import DamagedGames
from azselfplay.store.sqlite import CONFLICT, DUPLICATE, REJECTED, RETRY, STORED, Totals
from net.architectures.registry import TRAINING_HEADS
from trainer.run_setup import Run
from trainer.train_step import HeldOutFigures, StepFigures
from trainer.training_loop import TrainingLoop, Turn

if TYPE_CHECKING:
    from prometheus_client import Histogram

log = logging.getLogger(__name__)

LOADING = "the window to be loaded"
"""What training waits for before the first turn."""
COMMIT_HANGS = 60.0
"""Seconds after which a commit is taken to hang, as on a network disk that is away."""
LEAST_FREE = 1 << 20
"""Bytes. A disk with less free space counts as full: neither a checkpoint nor weights fit on it."""
OUTCOMES = {1: "first", 0: "draw", -1: "second"}
RATE_SECONDS = 300.0
"""Length of the time over which the rate of games is computed."""
RATE_APART = 5.0
"""Least seconds between two remembered counts of games."""
PACE_SECONDS, LEAST_PACE_SECONDS, PACE_APART = 3600.0, 600.0, 60.0
"""Time over which training is compared with the games that came, least such time, and least seconds between
two remembered counts."""
POINT_SECONDS, LONGEST_POINT_SECONDS = 2.0, 60.0
"""Least and most seconds between two points of a curve; between these bounds, a hundredth of the time since
the start."""


@dataclass
class Figures:
    """Collects figures from the tasks. Times are seconds on any one clock."""

    started: float
    rate: Rate = field(default_factory=lambda: Rate(RATE_SECONDS, RATE_APART, 0, 0.0))
    """Recent games."""
    answered: Counter[str] = field(default_factory=Counter)
    """Games since the start, by the status of their answer."""
    commits: Histogram = field(default_factory=histogram)
    """Seconds that checking and committing a batch of games took."""
    not_stored: str = ""
    """Why games cannot be stored at the moment (`why_not_stored`)."""
    turn: Turn | None = None
    paces: deque[tuple[float, int, float]] = field(default_factory=deque)
    """Times within the last hour, with the samples of self-play trained on and those allowed by then, oldest
    first; empty while there are none."""
    steps: StepFigures | None = None
    """Figures of the last turn that made steps."""
    held_out: HeldOutFigures | None = None
    """Held-out figures of the network published last."""
    weights_version: int = 0
    """Newest version the server has stored."""
    architecture: str = ""
    step: int = 0
    """Training steps of the checkpoint; shown until the first turn, like `loaded`."""
    minutes: float = 0.0
    """Minutes of training, over all starts."""
    first: int = 0
    """Training steps when this process began."""
    loaded: int = 0
    """Positions that have been loaded into the window."""
    rejected: Mapping[str, int] = field(default_factory=dict)
    damaged: DamagedGames | None = None
    """Stored games that could not be read back."""
    probe_values: Mapping[str, float] = field(default_factory=dict)
    """Values of the network published last for positions of known value."""
    known_errors: Mapping[str, float] = field(default_factory=dict)
    """How often the policy of that network errs in positions whose best moves are known, by group."""
    newest_games: Mapping[str, Any] = field(default_factory=lambda: Stretch().figures(None))
    """Properties of the newest games (`diagnostics.stretches`)."""
    alerts: list[str] = field(default_factory=list)
    """Current signs that the run does not learn."""
    resignation: Mapping[str, float | int | None] = field(default_factory=dict)
    """Threshold and mistakes (`trainer.resign_threshold`), empty when nobody resigns."""

    def begin(self, run: Run) -> None:
        """Begin with an open run, at its checkpoint."""
        self.step = self.first = run.training.step
        self.minutes = run.training.minutes
        self.rate = Rate(RATE_SECONDS, RATE_APART, run.store.totals.games.total(), self.started)
        # The committer and the store's reader go on counting in these two.
        self.rejected = run.committer.rejected
        self.damaged = run.reader.damaged
        self.architecture = run.training.architecture

    def on_turn(self, turn: Turn, now: float) -> None:
        self.turn = turn
        self.steps = turn.figures or self.steps
        if turn.allowed is None:
            self.paces.clear()
        elif not self.paces:
            self.paces.append((now, turn.samples, turn.allowed))

    def training_share(self, now: float) -> float | None:
        """Return the samples trained on in the last hour as a share of those that its games allowed; None if
        it is unknown, or training waits for games."""
        paces, turn = self.paces, self.turn
        if turn is None or turn.allowed is None or not paces:
            return None
        if now - paces[-1][0] >= PACE_APART:
            paces.append((now, turn.samples, turn.allowed))
        # Time before the first new games does not count, nor do samples of earlier games made in it.
        while len(paces) > 1 and (now - paces[1][0] >= PACE_SECONDS or paces[1][2] == paces[0][2]):
            paces.popleft()
        if turn.allowed == paces[0][2]:
            paces[0] = now, turn.samples, turn.allowed
        since, samples, allowed = paces[0]
        is_known = turn.more and turn.allowed > allowed and now - since >= LEAST_PACE_SECONDS
        return (turn.samples - samples) / (turn.allowed - allowed) if is_known else None

    def on_weights(self, training: TrainingLoop) -> None:
        """Measure the network that is published, so that figures and weights belong together."""
        if measured := training.measured():
            held_out, self.probe_values, self.known_errors = measured
            self.held_out = held_out or self.held_out

    def refresh(
        self, run: Run, watch: Watch, keep_games: int, now: float, commit_seconds: float = 0.0
    ) -> dict[str, Any]:
        """Return the present figures, with alerts. `keep_games`: see `hours_until_full`; `commit_seconds`:
        see `why_not_stored`."""
        self.newest_games, self.minutes = watch.figures(), run.training.minutes
        self.rate.note(run.store.totals.games.total(), now)
        self.not_stored = why_not_stored(run, commit_seconds)
        figures = self.as_dict(run.store.totals, now)
        hours = hours_until_full(run, figures["games_per_h"], keep_games)
        figures["alerts"] = self.alerts = watch.alerts(figures, hours, self.training_share(now))
        return figures

    def write_last(self, run: Run, curves: Curves) -> None:
        """Write the last figures into the run folder."""
        figures = self.as_dict(run.store.totals, time.monotonic())
        if self.turn is not None:  # until then the window and its figures are incomplete
            curves.finish(figures)
        try:
            run.folder.write_figures(figures)
        except OSError as error:
            log.warning("the last figures could not be written to %s: %s", run.folder.figures, error.strerror)

    def as_dict(self, totals: Totals, now: float) -> dict[str, Any]:
        """Return the figures of TRAINER_STATUS."""
        games = totals.games.total()
        steps, held_out = self.steps, self.held_out
        shares = self.turn.outcome_shares if self.turn else {}
        waiting_for = self.turn.waiting_for if self.turn else LOADING
        if self.not_stored:
            waiting_for = f"games to be stored: {self.not_stored}"
        return {
            "games": games,
            "positions": totals.positions,
            "games_by_source": {source: totals.games[source] for source in ("workers", "clients")},
            "versions": {source: len(totals.versions.get(source, ())) for source in ("workers", "clients")},
            "outcomes": {name: totals.outcomes[outcome] for outcome, name in OUTCOMES.items()},
            "reasons": dict(totals.reasons),
            "mean_plies": round(totals.positions / max(games, 1), 2),
            "games_per_h": round(3600 * self.rate.per_second(games, now), 1),
            "window_positions": self.turn.window_positions if self.turn else self.loaded,
            "step": self.turn.step if self.turn else self.step,
            "minutes": round(self.minutes, 2),
            "policy_loss": round(steps.policy_loss, 5) if steps else None,
            "value_loss": round(steps.value_loss, 5) if steps else None,
            "held_out_policy_loss": round(held_out.policy_loss, 5) if held_out else None,
            "held_out_value_loss": round(held_out.value_loss, 5) if held_out else None,
            **_of_heads("", steps),
            **_of_heads("held_out_", held_out),
            "value_spread": round(held_out.value_spread, 5) if held_out else None,
            "probe_values": {name: round(value, 4) for name, value in self.probe_values.items()},
            "known_errors": {name: round(share, 4) for name, share in self.known_errors.items()},
            "policy_entropy": round(steps.policy_entropy, 5) if steps else None,
            "gradient_norm": round(steps.gradient_norm, 5) if steps else None,
            "weight_norm": round(self.turn.weight_norm, 4) if self.turn else None,
            "window_outcomes": {name: rounded(shares.get(outcome)) for outcome, name in OUTCOMES.items()},
            **self.newest_games,
            "samples_per_position": rounded(self.turn.samples_per_position) if self.turn else None,
            "weights_version": self.weights_version,
            "rejected": dict(self.rejected),
            "architecture": self.architecture,
            "damaged": self.damaged.count if self.damaged else 0,
            "waiting_for": waiting_for,
            "not_stored": self.not_stored,
            "alerts": list(self.alerts),
            "resignation": dict(self.resignation),
        }


def _of_heads(prefix: str, losses: StepFigures | HeldOutFigures | None) -> dict[str, float | None]:
    """Return the losses of the training heads by name; None for a head without one."""
    found = losses.heads if losses else {}
    return {f"{prefix}{head}_loss": rounded(found.get(head)) for head in TRAINING_HEADS}


def why_not_stored(run: Run, commit_seconds: float = 0.0) -> str:
    """Return why games cannot be stored, as text for people; "" if they can. The disk is checked too: if
    players share a full disk with the trainer, no game comes that the store could refuse.

    `commit_seconds`: how long the present commit has lasted; 0: there is none."""
    # Said first, because a folder that hangs would hang whoever looks at it.
    if commit_seconds > COMMIT_HANGS:
        disks = "the disk" if run.archive is None else "the disk or the archive"
        lasted = f"a commit has lasted {commit_seconds:.0f} s"
        return f"{lasted}: {disks} does not answer. Look at the mount or the network"
    folder = run.folder.path
    if run.committer.error:
        return run.committer.error
    try:
        free = shutil.disk_usage(folder).free
    except OSError as error:
        return f"{folder}: {error.strerror}"
    return f"the disk of {folder} is full. Free some space" if free < LEAST_FREE else ""


def hours_until_full(run: Run, games_per_h: float, keep_games: int) -> float | None:
    """Return in how many hours the run's disk is full, if games go on to come like this; None if it is
    unknown, or if there is room for the `keep_games` games of self-play that the store keeps (0: all)."""
    games = run.store.with_records
    if not games or not games_per_h:
        return None
    try:
        free, used = shutil.disk_usage(run.folder.path).free, run.folder.games.stat().st_size
    except OSError:
        return None
    bytes_a_game = used / games
    if keep_games and (keep_games - games + run.store.totals.imported) * bytes_a_game <= free:
        return None
    return free / (bytes_a_game * games_per_h)


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


class Curves:
    """Writes the figures against the training step: an event file for TensorBoard in `folder`, JSON lines to
    `lines`. A full disk loses points, but does not stop the trainer."""

    def __init__(self, folder: Path, lines: Path) -> None:
        # TensorBoard's own form of a file name.
        name = f"events.out.tfevents.{int(time.time()):010d}.{socket.gethostname()}.{os.getpid()}.0"
        self._events, self._lines = folder / name, lines
        self._has_events = False
        self._last_step = 0
        self._started: float | None = None
        self._last = float("-inf")
        """Time of the last point."""

    def write(self, figures: Mapping[str, Any], now: float) -> None:
        """Write the figures if a point is due at `now`, in seconds on any one clock."""
        step = figures["step"]
        self._started = now if self._started is None else self._started
        pause = min(LONGEST_POINT_SECONDS, max(POINT_SECONDS, (now - self._started) / 100))
        # Curves are over the step: a second point at the same step would show nothing.
        if step == self._last_step or now - self._last < pause:
            return
        self._last_step, self._last = step, now
        try:
            # Imported only here, because it takes a fifth of a second, which would delay the start.
            from tensorboard.compat.proto.event_pb2 import Event
            from tensorboard.compat.proto.summary_pb2 import Summary
            from tensorboard.summary.writer.record_writer import RecordWriter

            # TensorBoard's own writer is not used: it buffers and writes in a thread, and is useless after a
            # failed write.
            buffer, at = io.BytesIO(), time.time()
            records = RecordWriter(buffer)
            if not self._has_events:  # every event file begins with the version of its format
                records.write(Event(wall_time=at, file_version="brain.Event:2").SerializeToString())
            values = [Summary.Value(tag=name, simple_value=one) for name, one in scalars(figures).items()]
            records.write(Event(wall_time=at, step=step, summary=Summary(value=values)).SerializeToString())
            # Whole or not at all: TensorBoard stops reading a file at half a record.
            append_whole(self._events, buffer.getvalue())
            self._has_events = True
        except OSError as error:
            log.warning("figures of step %d are missing in %s: %s", step, self._events, error.strerror)
        self._write_line(figures)

    def finish(self, figures: Mapping[str, Any]) -> None:
        """Write the last line, however recent the previous one is; of lines with the same step, readers use
        the last one."""
        if figures["step"]:
            self._write_line(figures)

    def _write_line(self, figures: Mapping[str, Any]) -> None:
        entries = {"time": round(time.time(), 1), **scalars(figures), "alerts": figures["alerts"]}
        line = json.dumps(entries).encode() + b"\n"
        try:
            # Begin on a new line in case a kill cut off the previous one.
            if self._lines.exists() and (size := self._lines.stat().st_size):
                with self._lines.open("rb") as file:
                    file.seek(size - 1)
                    line = line if file.read() == b"\n" else b"\n" + line
            append_whole(self._lines, line)
        except OSError as error:
            log.warning("no line in %s: %s", self._lines, error.strerror)


def scalars(figures: Mapping[str, Any]) -> dict[str, float]:
    """Return the numbers among the figures, nested ones as `name/key`, for TensorBoard."""
    flat: dict[str, float] = {}
    for name, value in figures.items():
        entries = value.items() if isinstance(value, Mapping) else [("", value)]
        for key, number in entries:
            # Texts and lists are for people; a curve needs numbers.
            if isinstance(number, int | float):
                flat[f"{name}/{key}" if key else f"trainer/{name}"] = float(number)
    return flat


METRICS = (
    # ---- games ----
    Metric("az_games_received_total", "received", "Answers given to games since the start.", label="status"),
    Metric("az_game_rejects_total", "rejected", "Games refused since the start.", label="code"),
    Metric(
        "az_ingest_commit_seconds", "commits", "Time to check and commit a batch of games.", is_histogram=True
    ),
    Metric("az_games", "games_by_source", "Games in the store.", label="source"),
    Metric("az_game_positions", "positions", "Positions of these games."),
    Metric("az_game_outcomes", "outcomes", "Games in the store by outcome.", label="outcome"),
    Metric("az_game_ends", "reasons", "Games in the store by how they ended.", label="reason"),
    Metric("az_damaged_games", "damaged", "Stored games that could not be read back."),
    # ---- training ----
    Metric("az_train_step", "step", "Training steps of this run."),
    Metric("az_train_steps_total", "steps_made", "Training steps since this trainer began."),
    Metric(
        "az_train_reuse_ratio",
        "samples_per_position",
        "Samples for each position, wins beside games included.",
    ),
    Metric("az_train_waiting", "is_waiting", "1 while training waits, mostly for games, else 0."),
    Metric("az_window_positions", "window_positions", "Positions that steps draw from."),
    Metric("az_window_outcomes", "window_outcomes", "Share of the whole window by outcome.", label="outcome"),
    Metric("az_policy_loss", "policy_loss", "Policy loss in training, nats."),
    Metric("az_value_loss", "value_loss", "Value loss in training, nats; of a tanh head a mean square."),
    Metric("az_held_out_policy_loss", "held_out_policy_loss", "Policy loss on games never trained on."),
    Metric("az_held_out_value_loss", "held_out_value_loss", "Value loss on games never trained on."),
    Metric("az_policy_entropy", "policy_entropy", "Entropy of the policy targets, nats."),
    Metric("az_gradient_norm", "gradient_norm", "Norm of the gradient before clipping."),
    Metric("az_weight_norm", "weight_norm", "Norm of all weights that are trained."),
    Metric("az_value_spread", "value_spread", "Standard deviation of the values of held-out positions."),
    # ---- the newest games ----
    Metric("az_search", "search", "Search result versus raw network (docs/web.md).", label="figure"),
    Metric(
        "az_root_values", "root_values", "Share of root values that are sure; sure and wrong.", label="kind"
    ),
    Metric("az_game_plies", "lengths", "Length percentiles of the newest games, plies.", label="percentile"),
    Metric("az_unique_openings", "unique_openings", "Different openings as a share of games.", label="plies"),
    Metric("az_weights_behind", "weights_age", "Versions that the newest games are behind."),
    Metric("az_resign_mistakes_ratio", "resignation.mistakes", "Share of resignations that were mistakes."),
    # ---- players ----
    Metric("az_players_in_quarantine", "players_in_quarantine", "Players whose games are not trained on."),
    # ---- weights, health ----
    Metric("az_published_model_version", "weights_version", "Newest version that the server has stored."),
    Metric("az_trainer_connected", "is_connected", "1 while there is a session with azserver, else 0."),
    Metric(
        "az_alert", "by_alert", "1 while a sign that the run does not learn is seen, else 0.", label="alert"
    ),
)
STATUSES = (STORED, DUPLICATE, CONFLICT, REJECTED, RETRY)


def watched(figures: Figures, run: Run, is_connected: Callable[[], bool]) -> Watched:
    """Return what the metrics port serves. `is_connected()`: whether there is a session with azserver."""

    def read_figures() -> Mapping[str, Any]:
        usual = figures.as_dict(run.store.totals, time.monotonic())
        # An alert is its name and a sentence; the metric has a line for each name.
        names = [alert.partition(":")[0] for alert in figures.alerts]
        return {
            **usual,
            "received": dict.fromkeys(STATUSES, 0) | figures.answered,
            "commits": figures.commits,
            # The run's step goes back to the checkpoint when a trainer was killed.
            "steps_made": usual["step"] - figures.first,
            "is_waiting": bool(usual["waiting_for"]),
            "is_connected": is_connected(),
            "players_in_quarantine": len(run.training.quarantine.players),
            "by_alert": {name: name in names for name in ADVICE},
        }

    def not_ready() -> str:
        if not is_connected():
            return "no session with azserver"
        return f"games are not being stored: {figures.not_stored}" if figures.not_stored else ""

    return Watched(METRICS, read_figures, not_ready, run.folder.path)
