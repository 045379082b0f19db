"""What final judgements count in their games."""

from dataclasses import replace
from unittest.mock import AsyncMock

import pytest

from azselfplay.games import get_game
from azselfplay.host.exits import Exit, Fatal
from azselfplay.lab.experiments.judges import matches
from azselfplay.lab.experiments.judges.matches import openings_of, play, score
from azselfplay.lab.experiments.measures import check_judge
from azselfplay.lab.experiments.recipe import Recipe
from azselfplay.play.gate import gate_openings
from azselfplay.play.openings import Opening
from azselfplay.play.runner import PlayedGame
from azselfplay.search.settings import resolve
from protocol.settings import SelfPlaySettings


def test_a_recipe_s_opening_begins_every_game() -> None:
    openings = openings_of(Recipe("x", "x", "go_5x5", 1.0, opening="C3 C4"), get_game("go_5x5"), 3, seed=1)
    assert [one.actions for one in openings] == [(12, 17)] * 3


def test_matches_of_a_game_that_random_moves_soon_end_begin_after_fewer_of_them() -> None:
    usual = get_game("tic_tac_toe")
    short = replace(usual.rules, end_reason=lambda _, n, *__: int(n > 3))
    game = replace(usual, rules=short, max_plies=16)
    openings = openings_of(Recipe("x", "x", "tic_tac_toe", 1.0), game, 3, seed=1)
    assert [len(one.actions) for one in openings] == [2] * 3
    assert gate_openings(game, 3, 1, resolve(SelfPlaySettings(), game)) == openings


def test_games_that_an_engine_failed_in_measure_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    game = PlayedGame("a", "b", "", False, "", (4,), 1, "resigned", failed="gtp:x", detail="its process died")
    monkeypatch.setattr(matches, "play_openings", lambda *_, **__: [game])
    with pytest.raises(Fatal, match=r"gtp:x failed in 1 of 1 games \(its process died\)"):
        play(get_game("go_5x5"), "random", "gtp:x", [Opening("start")])


def test_games_that_are_played_again_narrow_no_interval() -> None:
    """From one opening, a deterministic opponent repeats its games."""
    won, lost = (PlayedGame("a", "b", "", swapped, "", (4, swapped), 1, "x") for swapped in (False, True))
    other = replace(won, actions=(4, 5), outcome=0)
    once, again = score("", "", [won, lost, other, lost]), score("", "", [won, lost, other, lost] * 50)
    assert (again.value, again.count) == (0.375, 4)
    assert (again.low, again.high) == (once.low, once.high)


def test_the_last_pair_of_a_match_has_a_seed_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matches, "play_match", played := AsyncMock(return_value=[]))
    matches.play_openings(get_game("go_5x5"), "random", "random", [Opening("start")] * 3, seed=7)
    assert [call.args[-1].seed for call in played.call_args_list] == [7, 9]


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
