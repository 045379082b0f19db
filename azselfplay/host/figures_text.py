"""The figures of STATUS as text for people: rows of a table, or one line.

Keys are those in docs/protocol.md, and `troubles`: the last errors of azrun's parts, by part. Any may be
missing. Imports nothing that a small client lacks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Figures = Mapping[str, Any]


def rows(figures: Figures) -> list[tuple[str, str]]:
    """Return everything worth seeing, as (name, text) in reading order."""
    trainer: Figures = figures.get("trainer") or {}
    sessions: Figures = figures.get("sessions") or {}
    outcomes: Figures = trainer.get("outcomes") or {}
    losses = [_number(trainer.get(key), 3) for key in ("policy_loss", "value_loss")]
    return [
        *(("preparing", _preparing(figures)) for what in [figures.get("preparing")] if what),
        ("games", f"{_count(trainer.get('games'))}  ({_count(trainer.get('games_per_h'))}/h)"),
        ("won, drawn, lost", " / ".join(_count(outcomes.get(key)) for key in ("first", "draw", "second"))),
        ("ended by", _reasons(trainer.get("reasons") or {})),
        ("evaluations/s", _count(figures.get("evals_per_s"))),
        *_batches(figures),
        ("window", f"{_count(trainer.get('window_positions'))} positions"),
        ("step", _count(trainer.get("step"))),
        ("loss", f"policy {losses[0]}, value {losses[1]}"),
        ("search", _search(trainer.get("search") or {})),
        ("samples per position", _number(trainer.get("samples_per_position"), 2)),
        ("weights version", _count(figures.get("weights_version"))),
        *(("gate", _gate(gate)) for gate in [figures.get("gate")] if gate),
        ("workers, clients", f"{_count(sessions.get('workers'))}, {_count(sessions.get('clients'))}"),
        ("trainer", _trainer_state(figures)),
        *_resignation(trainer.get("resignation") or {}),
        *(("alert", str(text)) for text in trainer.get("alerts") or ()),
        *((f"{part} FAILS", str(text)) for part, text in (figures.get("troubles") or {}).items()),
    ]  # fmt: skip


def _batches(figures: Figures) -> list[tuple[str, str]]:
    """Where the network is part of the players' search there are no batches."""
    if figures.get("network_in_search"):
        return []
    return [
        ("mean batch", f"{_number(figures.get('mean_batch'), 1)} of {_count(figures.get('target_rows'))}"),
        ("queue wait", f"{_number(figures.get('queue_wait_ms'), 2)} ms"),
    ]


def line(figures: Figures) -> str:
    """Return the most important figures in one line; before anything is played, what is being prepared
    instead."""
    troubles = "".join(f", {part} FAILS: {text}" for part, text in (figures.get("troubles") or {}).items())
    if figures.get("preparing"):
        return _preparing(figures) + troubles
    trainer: Figures = figures.get("trainer") or {}
    gate = f", gate {_gate(figures['gate'])}" if figures.get("gate") else ""
    alerts = "".join(f", ALERT {text}" for text in trainer.get("alerts") or ())
    sessions: Figures = figures.get("sessions") or {}
    batches = (
        f", batch {_number(figures.get('mean_batch'), 1)}"
        f", queue {_number(figures.get('queue_wait_ms'), 2)} ms"
    )
    return (
        f"games {_count(trainer.get('games'))} ({_count(trainer.get('games_per_h'))}/h)"
        f", evals/s {_count(figures.get('evals_per_s'))}{'' if figures.get('network_in_search') else batches}"
        f", window {_count(trainer.get('window_positions'))}, step {_count(trainer.get('step'))}"
        f", loss {_number(trainer.get('policy_loss'), 3)} + {_number(trainer.get('value_loss'), 3)}"
        f", weights {_count(figures.get('weights_version'))}{gate}"
        f", workers {_count(sessions.get('workers'))}, clients {_count(sessions.get('clients'))}"
        f", trainer {_trainer_state(figures)}{alerts}{troubles}"
    )


def _preparing(figures: Figures) -> str:
    return f"{figures['preparing']}: {_count(figures.get('preparing_s'))} s so far"


def _gate(gate: Figures) -> str:
    """Describe the candidate that plays against the best weights, and the results of earlier ones."""
    done = f"{_count(gate.get('promoted'))} promoted, {_count(gate.get('rejected'))} rejected"
    if gate.get("candidate") is None:
        return f"waits for a candidate; {done}"
    score = _number(gate.get("score"), 3)
    return f"v{gate['candidate']} scores {score} in {_count(gate.get('games'))} games; {done}"


def _trainer_state(figures: Figures) -> str:
    if not (figures.get("sessions") or {}).get("trainer"):
        return "absent"
    if not figures.get("trainer"):
        return "starting"
    waiting_for = figures["trainer"].get("waiting_for")
    return f"waiting for {waiting_for}" if waiting_for else "training"


def _resignation(figures: Figures) -> list[tuple[str, str]]:
    """Where sides may resign: give the threshold, and how often resigning is a mistake."""
    if not figures:
        return []
    mistakes = figures.get("mistakes")
    rate = "-" if mistakes is None else f"{100 * mistakes:.1f} %"
    from_value = _number(figures.get("threshold") or None, 3)
    played_on = _count(figures.get("played_on"))
    return [("resignation", f"from {from_value}, mistakes {rate} of {played_on} games played on")]


def _search(search: Figures) -> str:
    """Describe how far the search result differs from the raw network, in the newest games."""
    if search.get("kl") is None:
        return "-"
    differs = 100 * (search.get("differs") or 0.0)
    return f"KL {search['kl']:.2f}, {_number(search.get('moves'), 1)} moves, other choice {differs:.0f} %"


def _reasons(reasons: Figures) -> str:
    common = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{name.replace('_', ' ')} {_count(number)}" for name, number in common[:5]) or "-"


def _count(value: Any) -> str:
    return "-" if value is None else f"{round(value):,}"


def _number(value: Any, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"
