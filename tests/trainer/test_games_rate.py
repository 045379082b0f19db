"""Games an hour are those of the last minutes, not of the whole run."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from trainer.figures import RATE_APART, RATE_SECONDS, GamesRate


@given(steps=st.lists(st.tuples(st.floats(0.0, 400.0), st.integers(0, 1000)), max_size=60))
def test_it_looks_back_no_further_than_needed(steps: list[tuple[float, int]]) -> None:
    """With a count every `RATE_APART` seconds it looks back `RATE_SECONDS` or a little more, in bounded
    memory."""
    now, games, rate = 0.0, 0, GamesRate(0, 0.0)
    for step, more in steps:
        now, games = now + step, games + more
        rate.note(games, now)
    assert len(rate._seen) <= RATE_SECONDS / RATE_APART + 2
    assert all(now - at < RATE_SECONDS for at, _ in list(rate._seen)[1:])


def test_a_run_that_becomes_faster_soon_shows_it() -> None:
    """A game a second for an hour, then two; the wait for the first game does not count."""
    rate, games = GamesRate(0, 0.0), 0
    for second in range(1000, 4600):
        games += 1
        rate.note(games, second)
    assert rate.per_hour(games, 4599) == 3600
    for second in range(4600, 4600 + int(RATE_SECONDS + RATE_APART)):
        games += 2
        rate.note(games, second)
    assert rate.per_hour(games, second) == 7200
