"""The trainer's figures for Prometheus."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from diagnostics.advice import ADVICE
from runtime.metrics import Metric, Watched
from trainer.figures import Figures
from trainer.run_setup import Run

METRICS = (
    # ---- games ----
    Metric("az_games_received_total", "received", "Answers given to games since the start.", label="status"),
    Metric("az_game_rejects_total", "rejected", "Games refused since the start.", label="code"),
    Metric(
        "az_ingest_commit_seconds",
        "commits",
        "Time to check and commit a batch of games.",
        is_histogram=True,
    ),
    Metric("az_games", "games_by_source", "Games in the store.", label="source"),
    Metric("az_game_positions", "positions", "Positions of these games."),
    Metric("az_game_outcomes", "outcomes", "Games in the store by outcome.", label="outcome"),
    Metric("az_game_ends", "reasons", "Games in the store by how they ended.", label="reason"),
    Metric("az_damaged_games", "damaged", "Stored games that could not be read back."),
    # ---- training ----
    Metric("az_train_steps_total", "step", "Training steps of this run."),
    Metric(
        "az_train_reuse_ratio",
        "samples_per_position",
        "Samples for each position, wins beside games included.",
    ),
    Metric("az_train_waiting", "is_waiting", "1 while training waits, mostly for games, else 0."),
    Metric("az_window_positions", "window_positions", "Positions that steps draw from."),
    Metric("az_window_outcomes", "window_outcomes", "Share of these by outcome.", label="outcome"),
    Metric("az_policy_loss", "policy_loss", "Policy loss in training, nats."),
    Metric("az_value_loss", "value_loss", "Value loss in training, nats."),
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
    Metric("az_players", "players", "Players of the newest games."),
    Metric(
        "az_players_that_differ",
        "players_that_differ",
        "Players whose games differ from the others'.",
        label="figure",
    ),
    Metric("az_players_in_quarantine", "players_in_quarantine", "Players whose games are not trained on."),
    # ---- weights, health ----
    Metric("az_published_model_version", "weights_version", "Newest version that the server has stored."),
    Metric("az_trainer_connected", "is_connected", "1 while there is a session with azserver, else 0."),
    Metric(
        "az_alert", "by_alert", "1 while a sign that the run does not learn is seen, else 0.", label="alert"
    ),
)
STATUSES = ("stored", "duplicate", "conflict", "rejected", "retry")


def watched(figures: Figures, run: Run, is_connected: Callable[[], bool]) -> Watched:
    """Return what the metrics port serves. `is_connected()`: whether there is a session with azserver."""

    def told() -> Mapping[str, Any]:
        usual = figures.as_dict(run.store.totals, time.monotonic())
        names = [alert.partition(":")[0] for alert in figures.alerts]
        return {
            **usual,
            "received": dict.fromkeys(STATUSES, 0) | figures.answered,
            "commits": figures.commits,
            "is_waiting": bool(usual["waiting_for"]),
            "is_connected": is_connected(),
            "players": len(run.players.players),
            "players_that_differ": {
                figure: len(players) for figure, players in run.players.who_differs().items()
            },
            "players_in_quarantine": len(run.training.quarantine.players),
            "by_alert": {name: name in names for name in ADVICE},
        }

    def not_ready() -> str:
        return "" if is_connected() else "no session with azserver"

    return Watched(METRICS, told, not_ready, run.folder.path)
