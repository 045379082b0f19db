"""Probes, the positions with a well-known value."""

import chess
import numpy as np

from azselfplay.games import get_game
from trainer.validation import Probes

GAME = get_game("chess")


def test_probes_are_what_they_are_called() -> None:
    """The side to move is a queen up or down; mirrored probes differ only in the colour."""
    probes = Probes.of(GAME, 1)
    assert probes.names == ("start", "KQK", "KKQ", "KQK_black")
    queens = np.bitwise_count(probes.packed_features[:, [4, 10]]).tolist()
    assert queens == [[1, 1], [1, 0], [0, 1], [1, 0]]
    _, white, _, black = probes.packed_features
    assert (white[:14] == black[:14]).all()
    for _, text in GAME.probes:
        assert chess.Board(text or chess.STARTING_FEN).is_valid()
