"""`make gpu-check`, run on the CPU: right answers pass, wrong ones do not."""

from __future__ import annotations

import numpy as np

from azselfplay.games import get_game
from bench.gpu_check import check, differences, plain_answers, scrambled, served_rates
from bench.inference import chess_like_batch


def test_right_answers_pass():
    """There are two batches in flight, several sizes, and a swap of weights."""
    assert check("tiny", "cpu") == []


def test_the_rates_are_those_of_all_sizes_that_evaluators_use(monkeypatch):
    """It ends with nothing in flight."""
    monkeypatch.setattr("bench.gpu_check.SECONDS_A_SIZE", 0.0)
    monkeypatch.setenv("AZ_CUDA_KERNELS", "")
    rates = served_rates("tiny", "cpu", "plain")
    assert list(rates) == ["target_rows", "64", "128", "256", "512"]


def test_answers_of_other_rows_do_not_pass():
    """Features in the wrong order give answers that do not belong to their rows."""
    game = get_game("chess")
    network = scrambled("tiny", game)
    features, counts, actions = chess_like_batch(game, 64)
    right = plain_answers(network, game, (features, counts, actions))
    wrong = plain_answers(network, game, (np.ascontiguousarray(features[::-1]), counts, actions))
    assert differences("tiny", right, right) == []
    assert len(differences("tiny", wrong, right)) == 1
