"""The real games through the whole of inference, on positions of random games."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from net_shapes import naive_planes, random_play
from test_inference import naive_answers, trained_like

from games import GAME_NAMES, get_game
from net.architectures.residual import Residual
from net.inference import Inference
from net.planes import PlaneShape, unpack, words_tensor
from net.weights import WeightsMeta, save

SIZES = Residual(1, 16, True, 8, value_channels=2, value_hidden=16, value_head="wdl")


@pytest.mark.parametrize("name", GAME_NAMES)
def test_a_net_from_a_file_answers_positions_of_the_game_as_the_plain_network_does(
    name: str, tmp_path: Path
) -> None:
    game = get_game(name)
    batch = random_play(game, 30)
    network = trained_like(SIZES, game, game.history)
    save(tmp_path / "net.safetensors", network, WeightsMeta(name, game.history, SIZES))
    inference = Inference(name, game.history, threads=1, target_rows=16)
    inference.load(tmp_path / "net.safetensors")
    priors, wdl = inference.run(batch.features, batch.counts, batch.actions)
    inference.close()
    expected_priors, expected_wdl = naive_answers(network, game, game.history, batch)
    np.testing.assert_allclose(priors, expected_priors, atol=0.02, rtol=0.06)
    np.testing.assert_allclose(wdl, expected_wdl, atol=0.03)
    rows = np.repeat(np.arange(batch.rows), batch.counts)
    np.testing.assert_allclose(np.bincount(rows, weights=priors.astype(np.float64)), 1, atol=2e-3)


@pytest.mark.parametrize("name", GAME_NAMES)
def test_real_features_unpack_as_naive_unpackbits_says(name: str) -> None:
    game = get_game(name)
    words = random_play(game, 20).features
    planes = unpack(words_tensor(words), PlaneShape.of(game, game.history)).numpy()
    np.testing.assert_array_equal(planes, naive_planes(words, game, game.history))
    assert 0 < planes.mean() < 1
