"""The real games through the whole inference, on positions of random games."""

from pathlib import Path

import numpy as np
import pytest
from sparse_positions import positions
from test_inference import naive_answers, trained_like

from azselfplay.games import GAME_NAMES, get_game
from net.architectures.registry import named
from net.inference import Inference
from net.weights import WeightsMeta, save


@pytest.mark.parametrize("net", ["1x16se", "tf1x32"])
@pytest.mark.parametrize("name", GAME_NAMES)
def test_a_net_from_a_file_answers_positions_of_the_game_as_the_plain_network_does(
    name: str, net: str, tmp_path: Path
) -> None:
    game, sizes = get_game(name), named(net)
    batch = positions(name, 30, game.history)
    network = trained_like(sizes, game, game.history)
    save(tmp_path / "net.safetensors", network, WeightsMeta(name, game.history, sizes))
    inference = Inference(name, game.history, threads=1, target_rows=16)
    inference.load(tmp_path / "net.safetensors")
    priors, wdl = inference.run(batch.features, batch.counts, batch.actions)
    inference.close()
    expected_priors, expected_wdl = naive_answers(network, game, game.history, batch)
    np.testing.assert_allclose(priors, expected_priors, atol=0.02, rtol=0.06)
    np.testing.assert_allclose(wdl, expected_wdl, atol=0.03)
    rows = np.repeat(np.arange(batch.rows), batch.counts)
    np.testing.assert_allclose(np.bincount(rows, weights=priors.astype(np.float64)), 1, atol=2e-3)
