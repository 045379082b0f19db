"""What azserver counts, for STATUS and for Prometheus.

The front and its services note events in `Figures`. Nothing here has a clock: the time comes with each event.
STATUS consists of `Figures.as_dict` and of what `Front.status` reads from queue, relay and store. `METRICS`
names the same figures for Prometheus, and `Front.metrics` adds those that only make sense as counters. The
trainer serves its own figures on its own port.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import mul
from typing import TYPE_CHECKING

from azselfplay.host.aio import Faults
from azselfplay.host.metrics import ROWS, Metric, Rate, histogram
from protocol.messages import EvaluatorReport

if TYPE_CHECKING:
    from prometheus_client import Histogram

RATE_SECONDS, RATE_APART = 10.0, 1.0
"""Seconds that `evals_per_s` averages over, and least seconds between two of its counts."""
ENDS = ("left", "hung_up", "lease", "refused", "ended")
"""How a session ends: on purpose, with its connection, by silence, by a refused HELLO, or by the server."""
MOST_PER_SECOND = 1e6
"""Most evaluations a second that one player is believed to make; one core makes a tenth of that."""
RECENT_BATCHES = 1000
"""Number of batches that `mean_batch` averages over."""
COUNTED = (
    *("protocol_errors", "over_credit", "undelivered", "evaluator_restarts", "batches"),
    *("redone_rows", "wrong_rows", "poisoned", "bad_batches", "weights_refused"),
)
"""Counts that STATUS shows under their own names."""
METRICS = (
    Metric("az_uptime_seconds", "uptime_s", "Seconds since this azserver began to serve."),
    # ---- leaves ----
    Metric("az_eval_leaves_total", "by_evaluator", "Leaves evaluated.", label="evaluator"),
    Metric("az_eval_batches_total", "batches", "Batches computed."),
    Metric("az_eval_batch_size", "batch_sizes", "Leaves per batch.", is_histogram=True),
    Metric("az_eval_batch_target", "target_rows", "Leaves that one evaluator computes at once."),
    Metric(
        "az_eval_latency_seconds",
        "latency",
        "Mean time a batch's leaves wait (queue); time to compute the batch (device).",
        label="stage",
        is_histogram=True,
    ),
    Metric("az_eval_device_busy_seconds_total", "device_busy_s", "Computing time, all evaluators together."),
    Metric("az_eval_inflight_leaves", "sent_rows", "Leaves being computed by evaluators."),
    Metric("az_eval_queue_leaves", "queue_rows", "Leaves that wait for an evaluator."),
    Metric("az_evaluators", "evaluators", "Evaluators that are working."),
    Metric("az_evaluators_expected", "devices", "Evaluators that should be working."),
    Metric(
        "az_evaluator_silent_seconds",
        "silent",
        "Seconds since an evaluator last sent a message, or was told to load weights.",
        label="evaluator",
    ),
    # ---- faults ----
    Metric("az_gpu_worker_restarts_total", "evaluator_restarts", "Restarts of evaluators."),
    Metric("az_eval_redone_leaves_total", "redone_rows", "Leaves evaluated again after an evaluator died."),
    Metric("az_eval_bad_batches_total", "bad_batches", "Evaluators' answers that were invalid."),
    Metric("az_eval_wrong_leaves_total", "wrong_rows", "Leaves whose answer was not a probability."),
    Metric("az_eval_poisoned_requests_total", "poisoned", "Slots of leaves refused after repeated failures."),
    Metric("az_credit_violations_total", "over_credit", "Requests beyond a session's credits."),
    Metric("az_protocol_errors_total", "protocol_errors", "Malformed or misplaced messages."),
    Metric("az_undelivered_answers_total", "undelivered", "Answers dropped because their peer read none."),
    Metric("az_weights_refused_total", "weights_refused", "Weights that an evaluator rejected."),
    Metric("az_faults_total", "faults", "Messages whose handling failed; see the log."),
    # ---- sessions, games, weights ----
    Metric("az_clients", "sessions", "Sessions.", label="role"),
    Metric("az_client_disconnects_total", "disconnects", "Ended sessions.", label="reason"),
    Metric("az_connections_cut_total", "cut", "Connections closed for misbehaviour.", label="port"),
    Metric("az_handshakes_refused_total", "refused", "Connections without an allowed key.", label="port"),
    Metric("az_allowed_keys", "allowed_keys", "Keys that may join; 0 while the list is unreadable."),
    Metric("az_trainer_present", "sessions.trainer", "1 while a trainer is connected, else 0."),
    Metric("az_games_relayed_total", "games_relayed", "Games handed to the trainer."),
    Metric("az_games_acked_total", "games_acked", "Games to which the trainer gave a final answer."),
    Metric("az_model_version", "weights_version", "Version of the weights in use; -1: none yet."),
    Metric("az_model_age_seconds", "weights_age", "Seconds since this azserver began to use them."),
    Metric("az_gate_promoted_total", "gate.promoted", "Weights that won the gate."),
    Metric("az_gate_rejected_total", "gate.rejected", "Weights that lost the gate."),
)


@dataclass(frozen=True)
class _Reported:
    """What one player reported last."""

    evaluations: int
    at: float
    per_second: float = 0.0


class OwnEvaluations:
    """Counts what players evaluate themselves. Each reports its total since its session began; a total that
    is lower than the last, or higher than possible, is corrected."""

    def __init__(self) -> None:
        self._last: dict[int, _Reported] = {}

    @property
    def per_second(self) -> float:
        """Evaluations a second of all players together, each between its last two reports."""
        return sum(report.per_second for report in self._last.values())

    def report(self, session: int, joined_at: float, evaluations: int, now: float) -> int:
        """Note a session's total. Returns how many evaluations are new."""
        last = self._last.setdefault(session, _Reported(0, joined_at))
        seconds = now - last.at
        if seconds <= 0:
            return 0
        # A player may claim anything: count no less than 0, and no more than a machine can do.
        new = max(0, min(evaluations - last.evaluations, int(MOST_PER_SECOND * seconds)))
        self._last[session] = _Reported(evaluations, now, new / seconds)
        return new

    def forget(self, session: int) -> None:
        """Note the end of a session."""
        self._last.pop(session, None)


@dataclass
class Preparing:
    """What azserver's workers are waiting for after a start. Times are `time.monotonic()`."""

    what: str = ""
    """Description for people; empty: nothing."""
    since: float = 0.0
    seconds: float = 0.0
    """Total seconds that the preparation took."""

    def begin(self, what: str, now: float) -> None:
        self.what, self.since = what, now

    def end(self, now: float) -> None:
        self.what, self.seconds = "", self.seconds + now - self.since

    def as_dict(self, now: float) -> dict[str, object]:
        """Return these figures for STATUS."""
        seconds = self.seconds + (now - self.since if self.what else 0.0)
        return {"preparing": self.what, "preparing_s": round(seconds, 1)}


@dataclass
class Figures:
    """What the front counts itself; the rest of STATUS comes from the queue, the relay and the sessions."""

    started: float
    evals: int = 0
    """Rows that devices have answered, and rows that players evaluated themselves."""
    rate: Rate = field(init=False)
    """Of the sum of `evals_by_evaluator`."""
    own: OwnEvaluations = field(default_factory=OwnEvaluations)
    """What players evaluate in their own search."""
    recent_rows: deque[int] = field(default_factory=lambda: deque(maxlen=RECENT_BATCHES))
    """Rows of the last batches."""
    recent_waits: deque[float] = field(default_factory=lambda: deque(maxlen=RECENT_BATCHES))
    """Mean seconds from a leaf's arrival to the beginning of its batch, one value per batch."""
    evals_by_evaluator: Counter[int] = field(default_factory=Counter)
    """Rows that each evaluator has answered."""
    batch_sizes: Histogram = field(default_factory=lambda: histogram(ROWS))
    wait_histogram: Histogram = field(default_factory=histogram)
    """Seconds, as `recent_waits`."""
    compute_histogram: Histogram = field(default_factory=histogram)
    """Seconds in which a device computed each batch."""
    progress_at: float = 0.0
    """When an evaluator last reported that it began or finished a batch; `started` until then."""
    weights_at: float = 0.0
    """When this process began to use the current weights."""
    disconnects: Counter[str] = field(default_factory=Counter)
    """Ended sessions by reason: one of `ENDS`."""
    device_busy: float = 0.0
    """Seconds of computing, summed over all devices."""
    protocol_errors: int = 0
    over_credit: int = 0
    undelivered: int = 0
    """Answers whose session was gone or whose socket was full."""
    evaluator_restarts: int = 0
    batches: int = 0
    redone_rows: int = 0
    wrong_rows: int = 0
    poisoned: int = 0
    reported_rows: dict[int, tuple[int, int]] = field(default_factory=dict)
    """By evaluator: rows that wait for it, and rows on its device."""
    bad_batches: int = 0
    """Answers of devices with at least one row that was not an evaluation."""
    weights_refused: int = 0
    preparing: Preparing = field(default_factory=Preparing)
    faults: Faults = field(default_factory=lambda: Faults(logging.getLogger("server")))
    """Exceptions raised while handling one message or one turn of a loop."""
    trainer: Mapping[str, object] = field(default_factory=dict)
    """The trainer's own figures, as last received."""

    def __post_init__(self) -> None:
        self.progress_at = self.weights_at = self.started
        self.rate = Rate(RATE_SECONDS, RATE_APART, 0, self.started)

    def reported(self, index: int, report: EvaluatorReport, now: float) -> None:
        """Count what an evaluator has done in about a second."""
        # Not strict: the figures come from another process, and a damaged report must not end this one.
        for rows, waited in zip(report.batches, report.waited, strict=False):
            self.batch_sizes.observe(rows)
            self.wait_histogram.observe(waited)
            self.recent_rows.append(rows)
            self.recent_waits.append(waited)
        for busy in report.busy:
            self.compute_histogram.observe(busy)
            self.device_busy += busy
        self.batches += len(report.batches)
        self.redone_rows += report.redone_rows
        self.wrong_rows += report.wrong_rows
        self.bad_batches += report.bad_batches
        self.poisoned += report.poisoned
        self.reported_rows[index] = report.queue_rows, report.sent_rows
        self.evals += report.rows
        self.evals_by_evaluator[index] += report.rows
        self.rate.note(self.evals_by_evaluator.total(), now)
        # A report without work shows that the process is alive, not that it makes progress.
        if report.batches or report.busy:
            self.progress_at = now

    @property
    def rows_of_evaluators(self) -> tuple[int, int]:
        """Return the rows that wait for evaluators, and those on their devices."""
        reported = self.reported_rows.values()
        return sum(waiting for waiting, _ in reported), sum(busy for _, busy in reported)

    def as_dict(self, now: float) -> dict[str, object]:
        answered = self.rate.per_second(self.evals_by_evaluator.total(), now)
        rows, waited = sum(self.recent_rows), sum(map(mul, self.recent_rows, self.recent_waits))
        return {
            "uptime_s": round(now - self.started, 1),
            "evals": self.evals,
            "evals_per_s": round(answered + self.own.per_second, 1),
            "mean_batch": round(rows / max(len(self.recent_rows), 1), 1),
            "device_busy_s": round(self.device_busy, 2),
            "queue_wait_ms": round(1000 * waited / max(rows, 1), 3),
            **{name: getattr(self, name) for name in COUNTED},
            "faults": self.faults.count,
            "trainer": self.trainer,
            **self.preparing.as_dict(now),
        }
