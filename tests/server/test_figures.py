"""Rates and means that STATUS shows."""

from __future__ import annotations

from server.figures import Figures, Rate, RecentMean


def test_a_steady_stream_shows_its_rate() -> None:
    rate = Rate()
    for second in range(60):
        rate.add(500, second + 0.5)
    assert 450 <= rate.per_second(59.9) <= 550


def test_a_rate_falls_to_zero_when_nothing_happens() -> None:
    rate = Rate()
    rate.add(1000, 5.0)
    assert rate.per_second(5.1) == 1000
    assert rate.per_second(40.0) == 0


def test_a_recent_mean_forgets_old_values() -> None:
    mean = RecentMean(3)
    for value in (100, 1, 2, 3):
        mean.add(value)
    assert mean.mean == 2


def test_figures_start_at_zero_and_count_batches() -> None:
    figures = Figures(started=10.0)
    assert figures.as_dict(10.0)["evals_per_s"] == 0
    figures.batch_sent(64, 0.002, 11.0)
    figures.batch_answered(64, 0.01, 12.0)
    shown = figures.as_dict(13.0)
    assert (shown["evals"], shown["mean_batch"], shown["queue_wait_ms"]) == (64, 64, 2)
