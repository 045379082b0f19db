"""What final judgements count in their games."""

from dataclasses import replace

import pytest

from azselfplay.games import get_game
from azselfplay.host.exits import Exit, Fatal
from azselfplay.lab.experiments.judges import matches
from azselfplay.lab.experiments.judges.matches import PAIRS, loses_result, measures_of, openings_of, play
from azselfplay.lab.experiments.measures import check_judge
from azselfplay.lab.experiments.recipe import Recipe
from azselfplay.play.openings import Opening
from azselfplay.play.runner import PlayedGame

SOLVED = get_game("go_3x3_komi8.5")
CENTRE = 4


def played(*, swapped: bool, outcome: int, opening: str = "centre") -> PlayedGame:
    """Return a game whose first move is to the centre."""
    return PlayedGame("a", "b", opening, swapped, "", (CENTRE, 0, 1), outcome, "more_points", 3)


@pytest.mark.parametrize(
    ("swapped", "outcome", "lost"),
    [(False, 1, False), (False, -1, True), (True, 1, False), (True, -1, False)],
)
def test_a_result_is_lost_by_whoever_had_more_after_the_opening(
    swapped: bool, outcome: int, lost: bool
) -> None:
    """From the centre the first player wins by nine points, half a point more than the komi."""
    assert loses_result(SOLVED, played(swapped=swapped, outcome=outcome), 1) is lost


def test_results_lost_are_counted_against_the_solver() -> None:
    openings = [Opening("centre", "", (CENTRE,)), Opening("corner", "", (0,))]
    games = [played(swapped=swapped, outcome=-1) for swapped in (False, True)]
    found = {one.what: one.value for one in measures_of(SOLVED, "trained", "solver", games, openings)}
    assert found == {"score against solver": 0.5, "games against solver that lose a result": 0.5}


def test_a_recipe_s_opening_begins_every_game() -> None:
    openings = openings_of(Recipe("x", "x", "go_5x5", 1.0, opening="C3 C4"), get_game("go_5x5"), final=True)
    assert [one.actions for one in openings] == [(12, 17)] * PAIRS


def test_games_that_an_engine_failed_in_measure_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    failed = replace(played(swapped=False, outcome=1), failed="gtp:x", detail="its process died")
    monkeypatch.setattr(matches, "play_openings", lambda *_, **__: [failed])
    with pytest.raises(Fatal, match=r"gtp:x failed in 1 of 1 games \(its process died\)"):
        play(SOLVED, "random", "gtp:x", [Opening("centre", "", (CENTRE,))])


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"opening": "C9"}, "opening: "),
        ({"judge_search": "puctt"}, "puctt"),
        ({"opponents": ("gtp:no-such-engine",)}, "there is no engine"),
    ],
)
def test_matches_that_cannot_be_played_are_refused_before_training(
    wrong: dict[str, str | tuple[str, ...]], why: str
) -> None:
    with pytest.raises(Fatal, match=why) as found:
        check_judge(Recipe("x", "x", "go_5x5", 1.0, **wrong))
    assert found.value.code is Exit.CONFIG
