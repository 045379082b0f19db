"""A weights file that the disk changed after it was stored is not used for play."""

import hashlib
from pathlib import Path

import numpy as np
import torch
from ring_parts import Orders

from azselfplay.batching.loop import EvaluatorLoop, Exceptions
from azselfplay.games import get_game
from azselfplay.host.folders import own_folder
from net.architectures.network import build
from net.architectures.residual import Residual
from net.inference import Inference
from net.weights import BadWeights, WeightsMeta, to_bytes
from protocol.messages import LoadWeights

GAME = get_game("tic_tac_toe")
SIZES = Residual(1, 8)
LEAF = np.zeros((1, GAME.feature_words(1)), np.uint64), np.array([2], np.uint16), np.array([3, 4], np.uint16)


def weights(folder: Path, seed: int) -> tuple[Path, bytes]:
    """Return a file and its hash."""
    torch.manual_seed(seed)
    data = to_bytes(build(SIZES, GAME, 1), WeightsMeta(GAME.name, 1, SIZES))
    path = folder / f"{seed}.safetensors"
    path.write_bytes(data)
    return path, hashlib.sha256(data).digest()


def flip_a_bit(path: Path) -> None:
    """Flip a bit in the last tensor, where it changes a number into another valid one."""
    data = bytearray(path.read_bytes())
    data[-4] ^= 0x10
    path.write_bytes(data)


def test_an_evaluator_refuses_the_file_and_keeps_its_old_network(tmp_path: Path) -> None:
    """The front then keeps the earlier weights, as whenever weights are refused."""
    control, inference = Orders(), Inference(GAME, 1, "cpu", threads=1)
    with own_folder() as folder:
        loop = EvaluatorLoop(folder / "ring", inference, GAME, 1, control, Exceptions(BadWeights))
    answers = []
    for version, damaged in ((1, False), (2, True)):
        path, sha256 = weights(tmp_path, version)
        if damaged:
            flip_a_bit(path)
        control.orders.append(LoadWeights(version, sha256, str(path)))
        loop.step()
        answers.append(inference.run(*LEAF))
    assert ("loaded", 1) in control.said
    refused, version, reason = control.said[-1]  # type: ignore[misc]
    assert (refused, version) == ("refused", 2)
    assert f"is damaged: its sha256 is {hashlib.sha256(path.read_bytes()).hexdigest()}" in reason
    np.testing.assert_array_equal(answers[0][1], answers[1][1])
