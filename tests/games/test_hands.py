"""The test game with a pass, hands, codes and a score, compared with its twin."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hands import GAME
from naive_hands import NaiveHands

from azselfplay.games.conformance import features, legal, playouts
from azselfplay.games.spec import outcome_for_first_player
from net.planes import PlaneShape, features_tensor, unpack


def test_moves_ends_scores_and_movers_are_those_of_the_twin() -> None:
    """They agree at every position of random games."""
    for playout in playouts(GAME.name):
        twin = NaiveHands()
        for n, state in enumerate(playout.positions, 1):
            assert legal(GAME, playout.positions, n) == twin.legal()
            assert GAME.rules.side_to_move(state) == twin.now.mover
            assert GAME.score(state) == twin.score()
            if n <= len(playout.actions):
                assert twin.outcome() is None
                twin.play(playout.actions[n - 1])
        value = GAME.end_reasons[playout.reason].value
        expected = twin.outcome() if playout.reason else None
        assert expected == (outcome_for_first_player(value, twin.now.mover) if playout.reason else None)


@pytest.mark.parametrize("history", [1, 2, 3])
def test_planes_are_those_of_the_twin(history: int) -> None:
    """All blocks are unpacked as for a GPU and compared."""
    shape = PlaneShape.of(GAME, history)
    for playout in playouts(GAME.name)[:4]:
        twin = NaiveHands()
        for n in range(1, len(playout.positions) + 1):
            packed = features(GAME, playout.positions, n, history)[None]
            planes = unpack(features_tensor(packed), shape, torch.float64)[0].flatten(1).numpy()
            np.testing.assert_array_equal(planes, twin.planes(history))
            if n <= len(playout.actions):
                twin.play(playout.actions[n - 1])


def test_it_has_what_it_is_there_for() -> None:
    """It has hundreds of legal moves, passes by both players, captures, both outcomes, and a board that is no
    square."""
    reasons = {playout.reason for playout in playouts(GAME.name)}
    assert reasons >= {1, 2}
    assert GAME.rows != GAME.cols
    assert GAME.words_per_plane == 2
    assert max(len(legal(GAME, playout.positions, 1)) for playout in playouts(GAME.name)) == 595
    assert all(playout.actions.count(594) >= 2 for playout in playouts(GAME.name) if playout.reason)
    boards = [np.count_nonzero(state[:9].copy().view(np.uint8)) for state in playouts(GAME.name)[0].positions]
    drops = [action != 594 for action in playouts(GAME.name)[0].actions]
    steps = itertools.pairwise(boards)
    assert any(drop and after <= before for drop, (before, after) in zip(drops, steps, strict=True))
