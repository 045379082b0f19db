"""The number of training steps follows the number of positions that came in."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer.pacing import Quarantine, SampleBudget, grown_window


def budget(positions: int = 0, samples: int = 0) -> SampleBudget:
    """Return the budget for steps of 100 at 2 samples a position, with a minimum of 500 positions."""
    one = SampleBudget(100, 2.0, 500)
    one.add_positions(positions)
    one.samples = samples
    return one


def test_no_step_before_the_window_is_filled() -> None:
    assert budget(499).steps(499) == 0
    assert budget(499).waiting_for(499) == "1 more positions before the first step"
    assert budget(499, 1000).waiting_for(499) == "1 more positions before the next step"


@given(
    positions=st.integers(0, 10**7),
    samples=st.integers(0, 10**7),
    ratio=st.floats(0.1, 4.0),
    batch=st.integers(1, 4096),
)
def test_ratio_is_never_passed(positions: int, samples: int, ratio: float, batch: int) -> None:
    one = SampleBudget(batch, ratio, 1, samples)
    one.add_positions(positions)
    steps = one.steps(positions)
    if steps:
        assert samples + steps * batch <= ratio * positions
    if positions:
        assert samples + (steps + 1) * batch > ratio * positions
        assert bool(one.waiting_for(positions)) == (steps == 0)


def test_account_goes_on_where_it_stood() -> None:
    """After a restore with another ratio, only later positions count by the new one."""
    one = SampleBudget(100, 0.5, 1)
    one.restore(300, 500, 1000.0)
    one.add_positions(200)
    assert (one.steps(500), one.learned_from) == (8, 700)


def test_a_backlog_allows_no_more_samples_than_the_window_has_room_for() -> None:
    """What came before and comes later counts as ever."""
    one = budget(500, 1000)
    one.add_positions(10**7)
    one.limit(500_000)
    assert one.due == 2 * 500_000 + one.batch
    assert (one.learned_from, one.allowed) == (500 + 10**7, 2 * (500 + 10**7))
    one.add_positions(50)
    assert one.due == 2 * 500_000 + one.batch + 100


def test_steps_larger_than_the_window_allows_are_made_once_enough_positions_came() -> None:
    one = SampleBudget(100, 0.1, 10)
    for _ in range(1000):
        one.add_positions(300)
        one.limit(300)
        for _ in range(one.steps(300)):
            one.take_step()
    assert one.samples == 0.1 * 300 * 1000


def test_a_quarantine_takes_back_no_steps_and_a_release_allows_none_again() -> None:
    one = budget(1000, 2000)
    quarantine = Quarantine(one)
    one.samples_per_position = 4.0  # for later positions
    quarantine.take("player", 900)
    assert (one.learned_from, one.allowed, one.due) == (100, 200.0, 0.0)
    one.samples_per_position = 2.0
    assert one.waiting_for(500) == "50 more positions for the next step"
    quarantine.restore(quarantine.as_dict())
    quarantine.give_back("player")
    assert (one.learned_from, one.allowed, one.due) == (1000, 2000.0, 0.0)


@pytest.mark.parametrize("factor", [1, 16, 81, 256])
def test_window_grows_as_katagos(factor: int) -> None:
    """By hand: factor 1 gives c positions, and each unit of factor^0.75 adds 8/15 c (16^0.75 is 8)."""
    root = {1: 1, 16: 8, 81: 27, 256: 64}[factor]
    assert grown_window(300_000 * factor, 300_000) == pytest.approx(300_000 + 160_000 * (root - 1), abs=1)
