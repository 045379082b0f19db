"""The trainer's metrics for Prometheus."""

from pathlib import Path
from types import SimpleNamespace

from azselfplay.diagnostics.advice import ADVICE
from azselfplay.host.metrics import families
from azselfplay.store.sqlite import Totals
from trainer.figures import METRICS, STATUSES, Figures, watched


def samples(figures: Figures, *, is_connected: bool = True) -> dict[str, float]:
    """Return the samples by name and label."""
    run = SimpleNamespace(
        store=SimpleNamespace(totals=Totals()),
        folder=SimpleNamespace(path=Path("/")),
        training=SimpleNamespace(quarantine=SimpleNamespace(players={"clients/one"})),
    )
    told = watched(figures, run, lambda: is_connected)  # type: ignore[arg-type]
    return {
        " ".join([sample.name, *sample.labels.values()]): sample.value
        for family in families(METRICS, told.figures())
        for sample in family.samples
    }


def test_every_alert_is_a_metric_which_is_on_while_the_alert_is() -> None:
    figures = Figures(0.0)
    assert {name: samples(figures)[f"az_alert {name}"] for name in ADVICE} == dict.fromkeys(ADVICE, 0.0)
    figures.alerts = ["memorising: value loss 0.9 -> 0.4", "old weights: 5 behind"]
    on = {name for name in ADVICE if samples(figures)[f"az_alert {name}"]}
    assert on == {"memorising", "old weights"}


def test_answers_to_games_and_commits_are_counted() -> None:
    figures = Figures(0.0)
    figures.answered.update(["stored", "stored", "duplicate"])
    figures.rejected = {"bad_visits": 3}
    figures.commits.observe(0.02)
    found = samples(figures)
    assert [found[f"az_games_received_total {status}"] for status in STATUSES] == [2, 1, 0, 0, 0]
    assert found["az_game_rejects_total bad_visits"] == 3
    assert (found["az_ingest_commit_seconds_count"], found["az_ingest_commit_seconds_sum"]) == (1, 0.02)


def test_samples_a_position_are_unknown_before_the_first_turn() -> None:
    """A restarted trainer that loads its window would look as if it were too slow."""
    assert "az_train_reuse_ratio" not in samples(Figures(0.0))


def test_a_trainer_counts_its_own_steps_from_its_checkpoint_on() -> None:
    figures = Figures(0.0, step=505, first=500)
    assert [samples(figures)[f"az_train_{name}"] for name in ("step", "steps_total")] == [505, 5]


def test_it_is_ready_while_it_is_connected_and_games_can_be_stored() -> None:
    run = SimpleNamespace(store=None, folder=SimpleNamespace(path=Path("/")))
    assert watched(Figures(0.0), run, lambda: True).not_ready() == ""  # type: ignore[arg-type]
    assert "no session" in watched(Figures(0.0), run, lambda: False).not_ready()  # type: ignore[arg-type]
    full = Figures(0.0, not_stored="database or disk is full")
    assert "database or disk is full" in watched(full, run, lambda: True).not_ready()  # type: ignore[arg-type]
    assert samples(Figures(0.0), is_connected=False)["az_trainer_connected"] == 0


def test_players_in_quarantine_are_counted_and_never_named() -> None:
    found = samples(Figures(0.0))
    assert found["az_players_in_quarantine"] == 1
    assert not any("clients/one" in name for name in found)
