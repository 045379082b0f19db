"""The move played after a search: by visits or by a lower bound."""

import numpy as np
import pytest
from changed_settings import self_play

from azselfplay.search.mcts import choose_action, secure_action
from azselfplay.search.result import Candidates, SearchResult


def candidates(visits: list[int], values: list[float]) -> Candidates:
    """Return candidates for the actions 10, 11, 12, ..."""
    actions = np.arange(10, 10 + len(visits)).astype(np.uint16)
    return Candidates(actions, np.array(visits, np.int32), np.array(values))


@pytest.mark.parametrize(
    ("visits", "values", "action"),
    [
        ([100, 4, 20], [0.5, 0.8, 0.5], 10),
        ([100, 4, 20], [0.5, 1.0, 0.5], 11),
        ([1, 4, 4], [0.75, 0.25, 0.25], 11),  # bounds are equal
    ],
)
def test_the_secure_action_has_the_highest_bound(visits, values, action):
    assert secure_action(candidates(visits, values)) == action


def test_the_larger_its_constant_the_more_visits_a_secure_child_has():
    chosen = candidates([100, 30, 4], [0.3, 0.45, 0.7])
    assert [secure_action(chosen, c) for c in (0.1, 1, 8)] == [12, 11, 10]


def test_a_rule_plays_only_when_nothing_is_sampled():
    known = candidates([10, 90], [0.9, 0.1])
    result = SearchResult(known.actions, known.visits, 0.0, candidates=known)
    settings, rng = self_play(final_move="secure", temperature_plies=5), np.random.default_rng(0)
    assert {choose_action(result, 5, settings, rng) for _ in range(20)} == {10}
    assert [choose_action(result, 4, settings, rng) for _ in range(400)].count(10) < 80
