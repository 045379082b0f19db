"""Each alert is raised when its sign is there, and a healthy run has none."""

import dataclasses
from collections import Counter

import numpy as np
import pytest

from azselfplay.diagnostics.advice import ADVICE, with_advice
from azselfplay.diagnostics.alerts import Evidence, Lesson, find_alerts
from azselfplay.diagnostics.stretches import RootSums, Stretch
from azselfplay.games import get_game
from bench.random_games import random_game

CHESS = get_game("chess")


def stretch(draws: float = 0.2, *, games: int = 100, plies: int = 80, **reasons: int) -> Stretch:
    ends = Counter({"checkmate": games - sum(reasons.values()), **reasons})
    return Stretch(games, round(draws * games), games * plies, ends, values=games * plies)


def names(*stretches: Stretch, game: str = "chess", **more: object) -> list[str]:
    return list(find_alerts(Evidence(get_game(game), stretches, **more)))  # type: ignore[arg-type]


def test_a_healthy_run_and_one_that_has_just_begun_have_no_alert() -> None:
    lessons = [Lesson(step, 3.2 - step / 100, 2.8, 0.9) for step in range(10)]
    assert names(stretch(0.3), stretch(0.2), stretch(0.1), lessons=lessons, lag=1.0) == []
    assert names() == []


def test_a_draw_collapse_needs_three_stretches_in_a_row() -> None:
    assert names(stretch(0.1), stretch(0.7), stretch(0.8)) == []
    assert names(stretch(0.7), stretch(0.5), stretch(0.8)) == []
    assert names(stretch(0.1), stretch(0.7), stretch(0.8), stretch(0.9)) == ["draw collapse"]


def test_a_value_that_only_says_draw_is_told_from_one_that_knows_results() -> None:
    """A small value loss is good while games are decisive; with many draws it is a bad sign."""
    small = [Lesson(step, 3.0, 2.0, 0.4) for step in range(3)]
    large = [Lesson(step, 3.0, 2.0, 0.7) for step in range(3)]
    assert names(stretch(0.7), lessons=small) == ["value says draw"]
    assert names(stretch(0.5), lessons=small) == names(stretch(0.7), lessons=large) == []
    # Here the loss is a mean square.
    assert names(stretch(0.7), lessons=small, network="2x32tanh") == []


def test_an_alert_says_what_was_seen_and_what_to_change() -> None:
    found = find_alerts(Evidence(CHESS, [stretch(share) for share in (0.1, 0.7, 0.8, 0.9)]))
    seen = "70%, 80%, 90% draws in the last 3 stretches (least so far 10%; limit 60%)"
    assert found == {"draw collapse": seen}
    text = with_advice(f"draw collapse: {seen}")
    assert text.startswith(f"draw collapse: {seen}. ")
    assert "What to do: halve samples.per_position of the trainer. More: docs/" in text


def test_untrained_games_and_few_games_say_nothing() -> None:
    """During the warm-up, the network of version 0 draws because it knows nothing."""
    drawn = [stretch(0.9) for _ in range(3)]
    untrained = [dataclasses.replace(one, untrained=60) for one in drawn]
    few = [stretch(0.9, games=20) for _ in range(3)]
    assert names(*untrained) == names(*few) == []


def test_draws_are_right_in_a_game_known_by_heart() -> None:
    """In tic-tac-toe, a lack of draws would be the bad sign; its policy may be learned completely, too."""
    lessons = [Lesson(step, 1.001, 1.0, 0.9 - step / 20) for step in range(10)]
    drawn = [stretch(0.9) for _ in range(3)]
    assert names(*drawn, game="tic_tac_toe", lessons=lessons) == []
    assert names(*drawn, game="connect_four") == ["draw collapse"]


@pytest.mark.parametrize(
    ("newest", "name"),
    [
        (stretch(0.4, threefold_repetition=31), "repetitions"),
        (stretch(0.4, repetition=31), "repetitions"),
        (stretch(0.7, plies=30), "short draws"),
        (stretch(0.4, ply_cap=26), "games cut off"),
        (dataclasses.replace(stretch(), values=1000, saturated=101, saturated_wrong=6), "values too sure"),
    ],
)
def test_the_newest_games_alone_raise_these(newest: Stretch, name: str) -> None:
    """Each figure is just over its limit; a healthy stretch afterwards ends the alert."""
    assert names(stretch(), newest) == [name]
    assert names(newest, stretch()) == []


def test_sure_values_that_are_right_are_no_alert() -> None:
    """A value near 1 is right in a won game."""
    assert names(dataclasses.replace(stretch(), values=1000, saturated=500, saturated_wrong=10)) == []


@pytest.mark.parametrize(
    ("well", "told", "name"),
    [
        ({"disk_hours": 25.0}, {"disk_hours": 23.0}, "disk fills"),
        ({"training_share": 0.71}, {"training_share": 0.69}, "training too slow"),
        ({"lag": 3.0}, {"lag": 4.0}, "old weights"),  # three versions pass while a game is played
    ],
)
def test_a_figure_beyond_its_limit_is_told(well: dict, told: dict, name: str) -> None:
    assert names(**well) == names(**dict.fromkeys(well)) == []
    assert names(**told) == [name]


def test_memorising_is_a_policy_at_its_floor_while_the_value_loss_falls() -> None:
    floor = [Lesson(step, 2.51, 2.5, 0.9 - step / 20) for step in range(10)]
    level = [dataclasses.replace(lesson, value_loss=0.9) for lesson in floor]
    above = [dataclasses.replace(lesson, policy_loss=2.8) for lesson in floor]
    assert names(lessons=floor, samples_per_position=8.0) == ["memorising"]
    assert names(lessons=level) == names(lessons=above) == names(lessons=floor[:3]) == []


def test_memorising_is_a_value_loss_that_rises_on_games_held_out() -> None:
    """It rises there while it falls in training, whatever the policy does."""
    lessons = [Lesson(step, 2.8, 2.5, 0.9 - step / 20, 0.9 + step / 50) for step in range(10)]
    assert names(lessons=lessons) == ["memorising"]
    (seen,) = find_alerts(Evidence(CHESS, [], lessons)).values()
    assert seen == "value loss on games never trained on 0.96 -> 1.04, value loss 0.75 -> 0.55"
    falls_too = [dataclasses.replace(one, held_out_value_loss=one.value_loss + 0.1) for one in lessons]
    level = [dataclasses.replace(one, value_loss=0.9) for one in lessons]
    unknown = [dataclasses.replace(one, held_out_value_loss=None) for one in lessons]
    assert names(lessons=falls_too) == names(lessons=level) == names(lessons=unknown) == []


def test_memorising_is_a_value_loss_far_above_that_of_training_on_games_held_out() -> None:
    """This holds, too, where neither loss has moved for long."""
    for held_out, found in ((0.85, ["memorising"]), (0.75, [])):
        lessons = [Lesson(step, 2.8, 2.5, 0.6, held_out) for step in range(10)]
        assert names(lessons=lessons) == found


def searching(kl: float) -> Stretch:
    """Return a healthy stretch whose searches differ from the network by `kl` nats."""
    roots = RootSums()
    roots.totals.update(moves=3000, kl=800 * kl, differs=40)
    roots.counts.update(moves=1000, kl=800, differs=800)
    return dataclasses.replace(stretch(), roots=roots)


def test_a_search_without_effect_needs_three_stretches_in_a_row() -> None:
    """It is no alert where the network knows the game by heart, or where the figure is missing."""
    low, high = searching(0.04), searching(0.3)
    assert names(high, low, low, low) == ["search without effect"]
    assert names(low, low, high) == names(low, low) == names(stretch(), stretch(), stretch()) == []
    assert names(low, low, low, game="tic_tac_toe") == []
    (seen,) = find_alerts(Evidence(CHESS, [low, low, low])).values()
    assert "0.040, 0.040, 0.040 nats" in seen
    assert "3.0 moves in a policy target, another first choice than the network's in 5%" in seen
    assert "self_play.search.simulations" in ADVICE["search without effect"].change


def test_a_stretch_counts_values_as_the_first_player_sees_them() -> None:
    """+1 for the side to move is right when that side wins, whichever side moves and however often."""
    record = random_game(get_game("chess"), np.random.default_rng(0), simulations=20, max_plies=9)
    sure = np.array([1, -1, 0.5, -1, -1, 1, 1, 1, 1], np.float32)
    record = dataclasses.replace(record, root_values=sure, outcome=1)
    found, in_turn = Stretch(), np.array([1, -1, 1, -1, 1, -1, 1, -1, 1], np.int8)
    found.add(record, in_turn)
    assert (found.games, found.plies, found.values, found.untrained) == (1, 9, 5, 1)
    assert (found.saturated, found.saturated_wrong) == (4, 1)
    found.add(record, -in_turn)
    assert (found.saturated, found.saturated_wrong) == (8, 4)
    assert (found.saturated_share, found.wrong_share, found.draw_share) == (0.8, 0.5, 0.0)
    found.add(record, np.ones(9, np.int8))
    assert (found.saturated, found.saturated_wrong) == (12, 7)
