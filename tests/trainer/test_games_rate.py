"""Games an hour are those of the last minutes, not of the whole run."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from trainer.figures import RATE_APART, RATE_SECONDS, GamesRate


@given(steps=st.lists(st.floats(0.0, 400.0), max_size=60))
def test_it_looks_back_no_further_than_needed(steps: list[float]) -> None:
    """With a count every `RATE_APART` seconds it looks back `RATE_SECONDS` or a little more, in bounded
    memory."""
    now, rate = 0.0, GamesRate(0, 0.0)
    for step in steps:
        now += step
        rate.note(0, now)
    assert len(rate._seen) <= RATE_SECONDS / RATE_APART + 2
    assert all(now - at < RATE_SECONDS for at, _ in list(rate._seen)[1:])
