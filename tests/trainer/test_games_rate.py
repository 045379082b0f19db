"""Games an hour are those of the last minutes, not of the whole run."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer.figures import RATE_APART, RATE_SECONDS, GamesRate


def test_it_follows_a_change_within_the_stretch() -> None:
    rate, games = GamesRate(100, 0.0), 100
    for second in range(2, 1000, 2):
        games += 2 if second < 500 else 20
        rate.note(games, float(second))
        if second == 400:
            assert rate.per_hour(games, float(second)) == pytest.approx(3600)
    assert rate.per_hour(games, 998.0) == pytest.approx(36_000)


def test_before_the_stretch_is_full_it_is_the_mean_since_the_first_games() -> None:
    """While the search is compiled there are none."""
    rate = GamesRate(5, 0.0)
    for now in (2.0, 4.0, 10.0):
        rate.note(5, now)
    rate.note(25, 30.0)
    assert rate.per_hour(45, 50.0) == pytest.approx(3600)
    assert GamesRate(5, 10.0).per_hour(6, 10.0) == 3600, "not infinite"


@given(steps=st.lists(st.floats(0.0, 400.0), max_size=60))
def test_it_looks_back_no_further_than_needed(steps: list[float]) -> None:
    """With a count every `RATE_APART` seconds, between `RATE_SECONDS` and a little more, and in bounded
    memory."""
    now, rate = 0.0, GamesRate(0, 0.0)
    for step in steps:
        now += step
        rate.note(0, now)
    assert len(rate._seen) <= RATE_SECONDS / RATE_APART + 2
    assert all(now - at < RATE_SECONDS for at, _ in list(rate._seen)[1:])
