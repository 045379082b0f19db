"""How `python -m tests.hostile` evaluates its turns."""

import math

import pytest
from measure import CORES, Lost, Result, turns_within


def test_what_is_lost_is_the_median_of_pairs_so_that_a_slow_stretch_of_both_does_not_count() -> None:
    without = [1000.0, 100.0, 1000.0, 100.0, 1000.0]
    attacked = [950.0, 95.0, 960.0, 94.0, 950.0]
    lost = Lost.of(attacked, without)
    assert (lost.median, lost.least, lost.most) == pytest.approx((0.05, 0.04, 0.06))
    assert lost.text() == "5.0% (4.0 to 6.0)"


def test_the_interval_leaves_out_as_many_turns_at_both_ends_as_certainty_allows() -> None:
    """Of 12 turns it leaves out two at each end: P(at most 2 of 12 below the median) = 1.9 %."""
    lost = Lost.of([100.0 - share for share in range(12)], [100.0] * 12)
    assert (lost.least, lost.median, lost.most) == pytest.approx((0.02, 0.055, 0.09))


def test_what_is_taken_are_cores_of_the_front_beyond_the_control() -> None:
    result = Result("some attack", 0)
    for extra in (0.1, 0.3, 0.2):
        result.control.append({"server": 0.1})
        result.attacked.append({"server": 0.1 + extra})
    assert result.taken.median == pytest.approx(0.2 / CORES)


def test_as_many_turns_as_the_minutes_have_room_for() -> None:
    assert turns_within(20 * 60, 1.0) == 298
    assert turns_within(60, 1.0) == 13
    assert turns_within(10, 1.0) == 4


def test_without_turns_nothing_is_claimed() -> None:
    assert all(map(math.isnan, Lost.of([], [])))
