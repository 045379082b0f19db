"""Rates and means that STATUS shows."""

from __future__ import annotations

from server.figures import MOST_PER_SECOND, Figures, OwnEvaluations, Rate, RecentMean


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


def test_evaluations_in_players_searches_are_counted_once_whatever_they_tell() -> None:
    """Each number is a total since the session began. A lower one counts nothing, an impossible one what is
    possible, and a session that ended is no longer at work."""
    own = OwnEvaluations()
    assert own.told(1, joined_at=100.0, evaluations=50_000, now=101.0) == 50_000
    assert own.told(1, joined_at=100.0, evaluations=50_000, now=101.0) == 0
    assert own.told(1, joined_at=100.0, evaluations=150_000, now=103.0) == 100_000
    assert own.told(2, joined_at=102.0, evaluations=30_000, now=105.0) == 30_000
    assert own.per_second == 50_000 + 10_000
    own.forget(2)
    assert own.per_second == 50_000
    assert own.told(1, joined_at=100.0, evaluations=7, now=104.0) == 0
    assert own.told(1, joined_at=100.0, evaluations=2**60, now=106.0) == 2 * MOST_PER_SECOND
