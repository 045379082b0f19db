"""A run counts its errors at positions whose best moves are known."""

from pathlib import Path

import numpy as np
import pytest
from training_runs import fill, games, stored, training

from azselfplay.games import get_game
from trainer.validation import KnownPositions


def known_of(name: str, per_group: int = 40) -> KnownPositions:
    game = get_game(name)
    return KnownPositions.of(game, game.history, per_group)


@pytest.mark.parametrize(
    ("name", "groups"),
    [("tic_tac_toe", ("tree",)), ("connect_four", ("opening", "middle", "end")), ("chess", ("mate in one",))],
)
def test_a_perfect_policy_makes_no_error_and_the_worst_nothing_else(
    name: str, groups: tuple[str, ...]
) -> None:
    known = known_of(name)
    assert known.errors(known.keeps.astype(np.float32)) == dict.fromkeys(groups, 0.0)
    assert known.errors(-known.keeps.astype(np.float32)) == dict.fromkeys(groups, 1.0)
    assert [known.groups.count(group) for group in groups] == [40] * len(groups)


@pytest.mark.parametrize(("name", "per_group"), [("chess", 0), ("shogi", 40), ("tic_tac_toe", 0)])
def test_a_game_that_is_not_solved_or_not_to_be_asked_has_none(name: str, per_group: int) -> None:
    assert known_of(name, per_group).groups == ()


def test_a_trainer_counts_its_errors_and_is_not_changed_by_it(tmp_path: Path) -> None:
    one = fill(training(tmp_path / "a"), stored(tmp_path, games(20)), 20)
    one.make_step()
    found = one.known_errors()
    assert list(found) == ["tree"]
    assert 0 < found["tree"] < 1
    assert one.known_errors() == found
