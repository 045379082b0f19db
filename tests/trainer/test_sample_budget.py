"""The steps that games allow: searched positions allow them, and an allowed step stays allowed."""

from pathlib import Path

import pytest
from training_runs import fill, games, stored, to_the_end, training
from unsearched import without_search


def test_turn_makes_the_steps_that_games_allow(tmp_path: Path) -> None:
    one, records = training(tmp_path / "a", held_out=0.3, positions=1000), games(55)
    turn = to_the_end(one, records, 55)
    positions = sum(record.plies for record in records if one.trains_on(record.uid))
    assert 0 < positions == one.budget.learned_from < sum(record.plies for record in records)
    assert turn.step == 2 * positions // 32
    missing = (32 * (turn.step + 1) - 2 * positions) // 2  # an even number
    assert turn.waiting_for == f"{missing} more positions for the next step"
    assert one.turn([], 55, 400).figures is None


def test_what_was_allowed_stays_so_when_settings_change(tmp_path: Path) -> None:
    """A run that goes on with fewer samples a position, and with games half of whose moves are random, makes
    the steps that the new games allow. It neither waits because of old games nor makes up for them."""
    records, later = games(40), [without_search(record, 3) for record in games(40, seed=1)]
    one = training(tmp_path / "a", per_position=4.0, positions=1000)
    before = to_the_end(one, records, 40)
    one.save()
    path = stored(tmp_path, records + later[:10])
    again = fill(training(tmp_path / "a", per_position=1.0, positions=1000), path, 50)
    after = to_the_end(again, later[10:], 80)
    played, searched = sum(one.plies for one in records), sum(one.plies - 3 for one in later)
    assert (one.budget.learned_from, again.budget.learned_from) == (played, played + searched)
    assert before.step == 4 * played // 32
    assert after.step == (4 * played + searched) // 32 > before.step
    assert (before.allowed, after.allowed) == (4 * played, 4 * played + searched)
    wanted = (4 * played + searched) / (played + searched)
    assert after.samples_per_position == pytest.approx(wanted, abs=0.1)


def test_nothing_is_trained_on_while_nothing_was_searched(tmp_path: Path) -> None:
    one, searched = training(tmp_path / "a"), games(30)
    one.budget.allowed = 1e6
    assert to_the_end(one, [without_search(game, 9) for game in searched], 30).step == 0
    assert one.turn(searched, 60, 400).step > 0


def test_a_backlog_is_trained_on_no_more_than_the_window_that_is_left_of_it(tmp_path: Path) -> None:
    """Such are stored games that an old checkpoint does not know."""
    known, backlog = games(30), games(300, seed=1)
    one = training(tmp_path / "a")
    to_the_end(one, known, 30)
    one.save()
    again = training(tmp_path / "a", growth=True, growth_min=20)  # steps draw from half of the window
    path = stored(tmp_path, known + backlog)
    before = again.budget.samples
    fill(again, path, 330)
    turn = to_the_end(again, [], 330, positions=400)
    assert turn.window_positions < 150
    assert again.budget.learned_from == sum(record.plies for record in known + backlog)
    assert 0 < again.budget.samples - before <= 2 * turn.window_positions + 32
