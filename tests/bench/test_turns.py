"""Ratios of benchmarks do not depend on when each side was measured."""

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
