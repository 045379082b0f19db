"""`azplay export`: ONNX Runtime computes from the model what the network answers."""

import sys
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch

from azselfplay.games import get_game
from azselfplay.host.exits import Exit, Fatal
from azselfplay.play import export
from net.architectures.network import build, wdl_of
from net.architectures.registry import named
from net.weights import WeightsMeta, save

torch.set_num_threads(1)


def weights(folder: Path, game_name: str, net: str) -> tuple[Path, torch.nn.Module]:
    """Return a file of weights, all of which affect the answer, and the network in it."""
    torch.manual_seed(2)
    game, architecture = get_game(game_name), named(net)
    network = build(architecture, game, game.history).eval()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    save(folder / "net", network, WeightsMeta(game_name, game.history, architecture, 70, 3))
    return folder / "net", network


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["azplay export", *arguments])
    return export.main()


@pytest.mark.parametrize(
    ("game_name", "net"),
    [
        ("connect_four", "1x16se"),
        ("tic_tac_toe", "1x8tanh"),
        ("chess", "tf1x32"),
        ("go_9x9", "1x16se"),
        pytest.param("go_9x9", "tf1x32", marks=pytest.mark.nightly),
    ],
)
def test_onnx_runtime_answers_as_the_network(game_name: str, net: str, tmp_path, monkeypatch, capsys) -> None:
    file, network = weights(tmp_path, game_name, net)
    assert run(monkeypatch, str(file), "--onnx", str(tmp_path / "a.onnx")) == 0
    text = capsys.readouterr().out
    assert f"{net} for {game_name}, step 70" in text
    assert "match the original network's to within 0.1%" in text
    session = onnxruntime.InferenceSession(tmp_path / "a.onnx")
    game = get_game(game_name)
    assert session.get_inputs()[0].shape[1:] == [game.planes(game.history), game.rows, game.cols]
    for positions in (1, 7):
        planes = torch.rand(positions, game.planes(game.history), game.rows, game.cols).round()
        policy, wdl = session.run(["policy", "wdl"], {"planes": planes.numpy()})
        with torch.no_grad():
            logits, value = network(planes)
        np.testing.assert_allclose(policy, logits, rtol=1e-3, atol=1e-4)
        expected = wdl_of(value).numpy()
        np.testing.assert_allclose(wdl, expected, rtol=1e-3, atol=1e-4)
        assert (policy.shape, wdl.shape) == ((positions, game.actions), (positions, 3))
    about = session.get_modelmeta().custom_metadata_map
    assert (about["game"], about["history"], about["step"]) == (game_name, str(game.history), "70")
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["a.onnx", "net"]


@pytest.mark.parametrize(
    ("weights_file", "onnx", "says", "code"),
    [
        ("none", "a.onnx", "there is no network .*none", Exit.BAD_DATA),
        ("text", "a.onnx", "text cannot be used: not a safetensors file", Exit.BAD_DATA),
        ("net", ".", "is a folder; name a file", Exit.CONFIG),
        ("net", "nowhere/a.onnx", "there is no folder", Exit.CONFIG),
        ("net", "text/a.onnx", "there is no folder", Exit.CONFIG),
    ],
)
def test_what_cannot_be_exported_is_explained(
    weights_file: str, onnx: str, says: str, code: Exit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights(tmp_path, "tic_tac_toe", "1x8")
    (tmp_path / "text").write_text("no weights")
    with pytest.raises(Fatal, match=says) as caught:
        run(monkeypatch, str(tmp_path / weights_file), "--onnx", str(tmp_path / onnx))
    assert caught.value.code == code


def test_a_model_that_answers_otherwise_is_not_written(tmp_path, monkeypatch) -> None:
    file, _ = weights(tmp_path, "tic_tac_toe", "1x8")
    other = named("1x8")
    torch.manual_seed(9)
    game = get_game("tic_tac_toe")
    wrong = build(other, game, 1).eval()
    torch.nn.init.normal_(wrong.policy.out.weight)
    right = export.onnx_model
    monkeypatch.setattr(export, "onnx_model", lambda _, *more: right(wrong, *more))
    with pytest.raises(Fatal, match=r"give different answers \(policy by up to"):
        run(monkeypatch, str(file), "--onnx", str(tmp_path / "a.onnx"))
    assert not (tmp_path / "a.onnx").exists()
