"""When a gate is decided: exactly at the share, and never while the games left could change the result."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.gate import GateReport, verdict


@pytest.mark.parametrize(
    ("wins", "draws", "losses", "expected"),
    [
        (220, 0, 180, False),  # 55 % exactly is not more than 55 %
        (220, 1, 179, True),
        (221, 0, 0, True),  # the rest may be lost
        (0, 0, 180, False),  # the rest may be won, and is only 55 %
        (0, 0, 179, None),
        (220, 0, 0, None),
        (100, 241, 59, True),  # draws are half points
    ],
)
def test_four_hundred_games_by_hand(wins: int, draws: int, losses: int, expected: bool | None) -> None:
    assert verdict(GateReport(wins, draws, losses, 400), 0.55) is expected


@given(
    st.lists(st.sampled_from([1, 0, -1]), min_size=1, max_size=60),
    st.integers(0, 99).map(lambda percent: percent / 100),
)
def test_an_early_verdict_is_that_of_all_games(outcomes: list[int], share: float) -> None:
    """A decision never changes, and it is the one that the exact share of all points gives."""
    games = len(outcomes)
    seen = []
    for played in range(games + 1):
        part = outcomes[:played]
        report = GateReport(part.count(1), part.count(0), part.count(-1), games)
        seen.append(verdict(report, share))
    points = Fraction(sum(outcome + 1 for outcome in outcomes), 2 * games)
    final = points > Fraction(str(share))
    assert seen[-1] is final
    assert set(seen) <= {None, final}
