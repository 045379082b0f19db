"""Training steps follow the positions that came in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer.pacing import Growth, Pace

PACE = Pace(batch=100, samples_per_position=2.0, min_positions=500)


def test_no_step_before_the_window_is_filled() -> None:
    """Positions are not trained on before there are enough to draw from, and the log says how many."""
    assert PACE.steps(paid_for=998, window_positions=499, samples=0) == 0
    assert PACE.waiting_for(998, 499, 0) == "1 more positions before the first step"


def test_backlog_is_counted_in_whole_steps() -> None:
    """500 positions at 2 samples each pay for 10 steps of 100, of which 3 are done."""
    assert PACE.steps(paid_for=1000, window_positions=500, samples=300) == 7


def test_trainer_that_is_ahead_waits() -> None:
    """A trainer that has used up its positions makes no step and says what it waits for."""
    assert PACE.steps(paid_for=1000, window_positions=500, samples=1000) == 0
    assert PACE.waiting_for(1000, 500, 1000) == "51 more positions for the next step"


@given(
    positions=st.integers(0, 10**7),
    samples=st.integers(0, 10**7),
    ratio=st.floats(0.1, 4.0),
    batch=st.integers(1, 4096),
)
def test_ratio_is_never_passed(positions: int, samples: int, ratio: float, batch: int) -> None:
    """However many steps are allowed, they stay within the ratio, and one more would not."""
    pace = Pace(batch, ratio, 1)
    paid_for = ratio * positions
    steps = pace.steps(paid_for, positions, samples)
    if steps:
        assert samples + steps * batch <= paid_for
    if positions:
        assert samples + (steps + 1) * batch > paid_for
        assert bool(pace.waiting_for(paid_for, positions, samples)) == (steps == 0)


@pytest.mark.parametrize("factor", [1, 16, 81, 256])
def test_window_grows_as_katagos(factor: int) -> None:
    """By hand, as 16^0.75 is 8 and so on: c at c positions, and from there on 8/15 c for each unit."""
    growth = Growth(300_000, 0.75, 0.4)
    root = {1: 1, 16: 8, 81: 27, 256: 64}[factor]
    assert growth.positions(300_000 * factor) == pytest.approx(300_000 + 160_000 * (root - 1), abs=1)


def test_young_window_leaves_nothing_out() -> None:
    """Up to c positions, all that came in are drawn from."""
    growth = Growth(1000, 0.75, 0.4)
    assert all(growth.positions(total) >= total for total in range(1001))
