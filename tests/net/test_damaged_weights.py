"""A weights file that the disk changed after it was stored is not used for play."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest
import torch
import zmq

from azselfplay.games import get_game
from azselfplay.link.sockets import new_context
from azselfplay.search.evaluator import LeafBatch
from client.evaluators import LocalNet
from net.architectures.network import build
from net.architectures.residual import Residual
from net.inference import Inference
from net.weights import BadWeights, WeightsMeta, to_bytes
from protocol.messages import LoadWeights, WeightsInfo, WeightsLoaded, WeightsRefused, decode, encode
from server.evaluator import EvaluatorLoop

GAME = get_game("tic_tac_toe")
SIZES = Residual(1, 8)
LEAF = LeafBatch(
    np.zeros((1, GAME.feature_words(1)), np.uint64), np.array([2], np.uint16), np.array([3, 4], np.uint16)
)


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


def test_a_worker_keeps_its_old_network(tmp_path: Path) -> None:
    net = LocalNet(GAME, 1, "cpu", 1)
    good, sha256 = weights(tmp_path, 1)
    assert net.load(good, WeightsInfo(1, 10, sha256, 1, GAME.name)) == ""
    before = net.infer(LEAF)
    bad, sha256 = weights(tmp_path, 2)
    flip_a_bit(bad)
    assert "is damaged" in net.load(bad, WeightsInfo(2, 20, sha256, 1, GAME.name))
    after = net.infer(LEAF)
    assert after.version == 1
    np.testing.assert_array_equal(after.wdl, before.wdl)


def test_an_evaluator_refuses_the_file(tmp_path: Path) -> None:
    """The front then keeps the earlier weights, as with any that are refused."""
    context = new_context()
    front, socket = context.socket(zmq.PAIR), context.socket(zmq.PAIR)
    front.bind("inproc://evaluator")
    socket.connect("inproc://evaluator")
    loop = EvaluatorLoop(socket, Inference(GAME, 1, "cpu", threads=1), GAME.feature_words(1), 0, BadWeights)
    answers = []
    for version, damaged in ((1, False), (2, True)):
        path, sha256 = weights(tmp_path, version)
        if damaged:
            flip_a_bit(path)
        front.send(encode(LoadWeights(version, sha256, str(path))))
        loop._on_message([memoryview(socket.recv())])
        while front.poll(0):
            answers.append(decode(front.recv()))
    context.destroy(0)
    *_, loaded, refused = answers
    assert isinstance(loaded, WeightsLoaded)
    assert isinstance(refused, WeightsRefused)
    assert "is damaged" in refused.reason


@pytest.mark.parametrize("at", [0, -4])
def test_the_right_hash_is_no_matter_of_where_the_change_is(tmp_path: Path, at: int) -> None:
    path, sha256 = weights(tmp_path, 3)
    inference = Inference(GAME, 1, "cpu", threads=1)
    inference.load(path, sha256)
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)
    with pytest.raises(BadWeights, match=f"sha256 is {hashlib.sha256(data).hexdigest()}"):
        inference.load(path, sha256)
