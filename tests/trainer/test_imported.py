"""A trainer learns from imported games where it is told to, and only their moves and results."""

import contextlib
import dataclasses
import sqlite3
from pathlib import Path

import numpy as np
import pytest
from training_runs import GAME, fill, games, to_the_end, training

from azselfplay.games.game_history import replay
from azselfplay.games.knowledge import ReadGame
from azselfplay.lab.report.games_command import record_of
from azselfplay.play.game_files import FileGame
from azselfplay.store.reader import StoreReader
from azselfplay.store.sqlite import IMPORTED, Entry, Store
from bench.random_games import entry
from protocol.records import GameRecord
from trainer.sampler import with_played_targets

MOVES = (("5", "1", "3", "7", "4", "6"), ("5", "1", "3", "7", "4", "6", "8"), ("5", "2", "9", "1", "3"))
"""The first player always begins in the middle and, the file says, wins."""


def imported(moves: tuple[str, ...], number: int, outcome: int = 1) -> GameRecord:
    history = replay(GAME, "", moves)
    record = record_of(GAME, FileGame(1, ReadGame("", moves, outcome), history))
    return dataclasses.replace(record, uid=number.to_bytes(16, "big"))


def of_file(record: GameRecord) -> Entry:
    return dataclasses.replace(entry(record, IMPORTED), is_old=True)


def stored(folder: Path, of_files: int = 30, of_self_play: int = 0) -> Path:
    """Make a store; imported games come first."""
    found = [imported(MOVES[number % 3], number + 1) for number in range(of_files)]
    store = Store(folder / "games.db", GAME.name)
    entries = [of_file(one) for one in found]
    store.commit(entries + [entry(one) for one in games(of_self_play)])
    assert (store.totals.imported, store.totals.games.total()) == (of_files, of_self_play)
    store.close()
    return folder / "games.db"


def test_a_warm_start_learns_the_moves_and_results_of_imported_games(tmp_path: Path) -> None:
    """No game of self-play is needed; each position is trained on `per_position` times."""
    path = stored(tmp_path)
    one = training(tmp_path / "run", imported_share=0.5, per_position=30.0, lr=3e-3)
    fill(one, path, StoreReader(path).span()[1])
    assert to_the_end(one, [], 30).waiting_for.endswith("more positions before the first step")
    assert one.step == 30 * sum(len(moves) for moves in MOVES) * 10 // 32
    assert (one.budget.samples, one.window.positions) == (0, 0)
    features = np.zeros((1, GAME.feature_words(1)), np.uint64)
    start = GAME.notation.state_from_text("")
    GAME.rules.encode(start[None], 1, 1, features[0])
    policy = one.policies(features, np.ones((1, 9), bool))[0]
    assert GAME.notation.action_to_text(start, int(policy.argmax())) == "5"
    assert np.exp(policy.max()) / np.exp(policy).sum() > 0.8
    assert one.values(features)[0] > 0.5


def test_samples_a_position_are_told_once_self_play_is_trained_on(tmp_path: Path) -> None:
    """Before, they would look as if the trainer were too slow."""
    path = stored(tmp_path, of_self_play=20)
    one = fill(training(tmp_path / "run", imported_share=0.5), path, 50)
    one.turn_seconds = 0.0
    begun = one.turn([], 50, 1000)
    assert (begun.samples_per_position, begun.allowed) == (None, None)
    one.turn_seconds = 10.0
    to_the_end(one, [], 50)
    assert to_the_end(one, [], 50).samples_per_position == pytest.approx(2.0, abs=0.2)


def test_if_all_imported_games_are_damaged_training_goes_on_without_them(tmp_path: Path) -> None:
    path = stored(tmp_path, of_files=1, of_self_play=20)
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE games SET data = x'00' WHERE source = ?", (IMPORTED,))
    one = fill(training(tmp_path / "run", imported_share=0.5), path, 21)
    to_the_end(one, [], 21)
    assert one.step > 0


@pytest.mark.parametrize(("share", "count"), [(0.0, 0), (0.25, 8), (1.0, 32)])
def test_each_step_has_its_share_of_imported_games(share: float, count: int, tmp_path: Path) -> None:
    """They change neither the window of self-play nor its budget."""
    path = stored(tmp_path, of_self_play=20)
    one = training(tmp_path / "run", imported_share=share)
    # As if all steps on imported games alone had been made.
    one._imported.samples = 10**6
    fill(one, path, 50)
    assert one.window.games == 20
    assert one.budget.learned_from == one.window.targets
    seen = []
    one._train_step.train = lambda samples, *_: seen.append(samples)  # type: ignore[method-assign]
    one.make_step()
    # A random game's visits are spread over several moves; an imported game has one.
    sole = np.unique(seen[0].rows[seen[0].shares == 1.0])
    assert len(seen[0].classes) == 32
    assert len(sole) == pytest.approx(count, abs=3)
    assert one.budget.samples == 32


def trained(folder: Path, path: Path, **changes: float) -> None:
    """Save a run that has made all steps that the 30 games in `path` allow."""
    one = fill(training(folder, imported_share=0.5, **changes), path, 30)
    to_the_end(one, [], 30)
    one.save()


def test_a_restart_does_not_begin_with_them_again_and_takes_up_new_ones(tmp_path: Path) -> None:
    path = stored(tmp_path)
    trained(tmp_path / "run", path, positions=1000)
    again = fill(training(tmp_path / "run", imported_share=0.5, positions=1000), path, 30)
    assert again._imported.steps(32) == 0
    more = [imported(MOVES[0], number) for number in range(100, 130)]
    store = Store(path, GAME.name)
    for record in more:
        store.commit([of_file(record)])
    store.close()
    newer = fill(training(tmp_path / "run", imported_share=0.5, positions=1000), path, 60)
    assert newer._imported.steps(32) == pytest.approx(2 * 30 * 6 / 32, abs=1)


def test_settings_changed_in_a_run_bring_no_second_warm_start(tmp_path: Path) -> None:
    path = stored(tmp_path)
    trained(tmp_path / "run", path)
    again = fill(training(tmp_path / "run", imported_share=0.5, per_position=20.0), path, 30)
    assert again._imported.steps(32) == 0


def test_the_target_is_the_move_played_and_the_value_the_result_for_the_side_to_move() -> None:
    record = imported(MOVES[0], 1)
    found = with_played_targets(record, np.array([1, -1, 1, -1, 1, -1], np.int8), 0.5)
    assert found.visit_actions.tolist() == record.actions.tolist()
    assert (found.visits == 1).all()
    assert found.targets == 6
    assert found.root_values.tolist() == [1 / 64, -1 / 32, 1 / 16, -1 / 8, 1 / 4, -1 / 2]
