"""azserver's own figures for Prometheus. The trainer serves its figures on its own port."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from runtime.metrics import Metric, Watched
from server.figures import ENDS
from server.front import Front

NO_PROGRESS = 60.0
"""Seconds without an answer of any evaluator, while rows wait, after which azserver is not ready."""

METRICS = (
    Metric("az_uptime_seconds", "uptime_s", "Seconds since this azserver began to serve."),
    # ---- leaves ----
    Metric("az_eval_leaves_total", "by_evaluator", "Leaves evaluated.", label="evaluator"),
    Metric("az_eval_batches_total", "batches", "Batches sent to evaluators."),
    Metric("az_eval_batch_size", "batch_sizes", "Leaves per batch.", is_histogram=True),
    Metric("az_eval_batch_target", "target_rows", "Leaves that all evaluators compute at once."),
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
    Metric("az_eval_late_batches_total", "late_batches", "Evaluators' answers that came too late."),
    Metric("az_eval_bad_batches_total", "bad_batches", "Evaluators' answers that were invalid."),
    Metric("az_eval_wrong_leaves_total", "wrong_rows", "Leaves whose answer was not a probability."),
    Metric("az_eval_poisoned_requests_total", "poisoned", "Requests refused after repeated failures."),
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


def watched(front: Front, folder: Path) -> Watched:
    """Return what the metrics port serves. `folder`: the run's folder."""
    return Watched(METRICS, lambda: figures(front), lambda: not_ready(front, time.monotonic()), folder)


def figures(front: Front) -> Mapping[str, Any]:
    """Return the figures of STATUS, and some that are only needed as counters."""
    counted = front.figures
    evaluators = range(front.settings.devices)
    by_evaluator: Mapping[Any, int] = dict.fromkeys(evaluators, 0) | counted.evals_of
    if front.settings.network_in_search:
        by_evaluator = {"players": counted.evals}
    allowed = front.settings.allowed
    return {
        **front.status(),
        "by_evaluator": by_evaluator,
        "batch_sizes": counted.batch_sizes,
        "latency": {"queue": counted.queued, "device": counted.computed},
        "sent_rows": front.leaf.queue.sent_rows,
        "devices": front.settings.devices,
        "disconnects": dict.fromkeys(ENDS, 0) | counted.disconnects,
        "cut": {"leaves": front.leaf.port.door.cut, "bulk": front.bulk.port.door.cut},
        "refused": {"leaves": front.leaf.port.door.refused, "bulk": front.bulk.port.door.refused},
        "allowed_keys": None if allowed is None else allowed.readable,
        "silent": {index: one.seconds for index, one in front.pool.watch.silences(time.monotonic()).items()},
        "weights_age": time.monotonic() - counted.weights_at,
    }


def not_ready(front: Front, now: float) -> str:
    """Return why no evaluations are possible now; "" if all is well."""
    if front.stopping:
        return "it is stopping"
    if front.settings.network_in_search:
        return "" if front.pool.is_ready else "the weights are being checked"
    if not front.pool.working:
        return "no evaluator is up"
    queue, silent = front.leaf.queue, now - front.figures.progress_at
    if (waiting := queue.queued_rows + queue.sent_rows) and silent > NO_PROGRESS:
        return f"{waiting} leaves wait, and no evaluator has answered for {silent:.0f} s"
    return ""
