"""`make gpu-check`, tried on the CPU: it passes what is right, and does not pass what is wrong."""

from __future__ import annotations

import numpy as np

from bench.gpu_check import check, differences, plain_answers, scrambled
from bench.inference import chess_like_batch
from games import get_game


def test_right_answers_pass():
    """Two batches in flight, several sizes, and a swap of weights."""
    assert check("tiny", "cpu") == []


def test_answers_of_other_rows_do_not_pass():
    """Features in the wrong order give other answers than those that belong to the rows."""
    game = get_game("chess")
    network = scrambled("tiny", game)
    features, counts, actions = chess_like_batch(game, 64)
    right = plain_answers(network, game, (features, counts, actions))
    wrong = plain_answers(network, game, (np.ascontiguousarray(features[::-1]), counts, actions))
    assert differences("tiny", right, right) == []
    assert len(differences("tiny", wrong, right)) == 1
