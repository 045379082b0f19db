"""Sparse features agree with slow twins, and are symmetric where the game is."""

from collections import defaultdict

import pytest
from naive_sparse import TWINS, Move, possible

from azselfplay.games import get_game
from azselfplay.games.playouts import Described, described, features, legal, moved, playouts
from azselfplay.games.shogi.encoding import possible_actions


@pytest.mark.parametrize("name", TWINS)
def test_features_and_rows_are_those_of_the_slow_twin(name: str) -> None:
    """Every third position of random games is compared: features in any order, rows action by action."""
    game = get_game(name)
    for playout in playouts(name):
        twin = TWINS[name]()
        for n in range(1, len(playout.positions)):
            state = playout.positions[n - 1]
            actions = legal(game, playout.positions, n)
            moves = {at: Move(at, game.notation.action_to_text(state, at)) for at in actions}
            if n % 3 == 1:
                active, rows = described(game, features(game, playout.positions, n, 2), 2, [*moves])
                assert sorted(active) == sorted(twin.features())
                assert rows == [twin.rows(move) for move in moves.values()]
            twin.play(moves[playout.actions[n - 1]])


def shared_by(seen: list[Described]) -> tuple[list[list[int]], list[list[tuple[int, int]]]]:
    """Return which positions share each feature, and which of their actions share each row."""
    positions, actions = defaultdict(list), defaultdict(list)
    for at, (active, rows) in enumerate(seen):
        for feature in active:
            positions[feature].append(at)
        for number, row in enumerate(rows):
            for one in row:
                actions[one].append((at, number))
    return sorted(positions.values()), sorted(actions.values())


@pytest.mark.parametrize("name", ["tic_tac_toe", "connect_four", "dots_and_boxes", "dots_and_boxes_2x3"])
def test_a_symmetry_of_the_board_only_renames_features_and_rows(name: str) -> None:
    """Positions that share a feature share one in the mirror too, and no others do; so do actions and
    rows."""
    game = get_game(name)
    for symmetry in game.symmetries:
        seen: list[Described] = []
        images: list[Described] = []
        for playout in playouts(name):
            for n in range(1, len(playout.positions)):
                before, actions = features(game, playout.positions, n, 1), legal(game, playout.positions, n)
                seen.append(described(game, before, 1, actions))
                after = moved(game, symmetry, before, 1)
                images.append(described(game, after, 1, symmetry.actions[actions].tolist()))
        assert shared_by(seen) == shared_by(images)


def test_shogi_has_a_row_for_each_move_that_some_piece_can_make() -> None:
    assert possible_actions() == possible()
    assert len(possible()) == 3781  # games.shogi.attacks
