"""Ratios of benchmarks do not depend on when each side was measured."""

import pytest

from bench.turns import Spread, in_turns, ratio


def test_a_machine_that_becomes_slower_does_not_change_a_ratio() -> None:
    """Its speed halves from turn to turn. Measured one after the other, the sides would seem 96 times
    apart."""
    speed, measured = 1.0, 0

    def side(rate: float) -> float:
        nonlocal speed, measured
        measured += 1
        now = speed
        if measured % 2 == 0:  # both sides of a turn were measured
            speed /= 2
        return rate * now

    found = in_turns({"ours": lambda: side(300.0), "plain": lambda: side(100.0)}, turns=5)
    assert ratio(found["ours"], found["plain"]) == Spread(3.0, 3.0, 3.0)
    assert Spread.of(found["plain"]) == Spread(25.0, 6.25, 100.0)


def test_sides_change_places_from_turn_to_turn() -> None:
    seen: list[str] = []
    in_turns({name: lambda name=name: float(seen.append(name) or 1) for name in "abc"}, turns=3)
    assert "".join(seen) == "abccbaabc"


def test_one_turn_that_was_disturbed_does_not_move_the_median() -> None:
    assert ratio([10, 10, 1, 10, 10], [5, 5, 5, 5, 5]) == Spread(2.0, 0.2, 2.0)
    assert Spread.of([1200, 1000, 3000]).text() == "1,200 (1,000 to 3,000)"


def test_sides_of_different_length_and_no_values_are_errors() -> None:
    with pytest.raises(ValueError):
        ratio([1.0, 2.0], [1.0])
    with pytest.raises(ValueError):
        Spread.of([])
