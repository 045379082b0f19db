"""`make gpu-check`: the CUDA path compared with the plain network on the CPU, then its figures. One call,
minutes.

`python -m bench.gpu_check [DEVICE]`: DEVICE is `cuda` (default), `cuda:N`, or `cpu`, which takes the same
path without a GPU, so that the check itself can be tested. Exits with 1 if an answer is wrong.
"""

from __future__ import annotations

import itertools
import json
import sys
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from azselfplay.games import get_game
from azselfplay.games.spec import Game
from bench.inference import Arrays, chess_like_batch
from bench.inference import run as run_inference
from net.architectures.network import Network, build
from net.architectures.registry import named
from net.inference import Inference
from net.planes import PlaneShape, features_tensor, unpack
from net.weights import WeightsMeta

PRESETS_CHECKED = ("tiny", "small", "medium", "tf-small")
ROWS = (1, 7, 64, 300)
PRIOR_LIMIT = 0.01
"""Largest difference of a prior that bfloat16 may cause."""
WDL_LIMIT = 0.015


def scrambled(preset: str, game: Game) -> Network:
    """A network whose answers differ between positions, because new ones are nearly uniform."""
    torch.manual_seed(1)
    network: Network = build(named(preset), game, game.history).eval()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.05)
    return network


@torch.inference_mode()
def plain_answers(network: Network, game: Game, batch: Arrays) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Priors over the legal moves and wdl, in float32 on the CPU, the slow obvious way."""
    features, counts, actions = batch
    logits, value = network(
        unpack(features_tensor(features), PlaneShape.of(game, game.history), torch.float32)
    )
    priors, begin = [], 0
    for row, count in enumerate(counts):
        legal = torch.from_numpy(actions[begin : begin + count].astype(np.int64))
        priors.append(torch.softmax(logits[row, legal], 0).numpy())
        begin += int(count)
    return np.concatenate(priors), torch.softmax(value, 1).numpy()


def check(preset: str, device: str) -> list[str]:
    """The faults of this preset's answers on `device`; prints the differences."""
    game = get_game("chess")
    network = scrambled(preset, game)
    inference = Inference(game, game.history, device)
    wrong = []
    for version in (1, 2):  # the second replaces the weights of a running engine
        inference.use(network, WeightsMeta(game.name, game.history, named(preset), version=version))
        batches = [chess_like_batch(game, rows, seed=version) for rows in ROWS]
        for first, second in itertools.pairwise(batches):
            tickets = [inference.submit(*first), inference.submit(*second)]  # two in flight
            for batch, ticket in zip((first, second), tickets, strict=True):
                wrong += differences(preset, inference.collect(ticket), plain_answers(network, game, batch))
        with torch.no_grad():
            for parameter in network.parameters():
                parameter.mul_(0.9)
    inference.close()
    return wrong


def differences(preset: str, found: tuple[Any, Any], expected: tuple[Any, Any]) -> list[str]:
    gaps = [float(np.abs(a.astype(np.float32) - b).max()) for a, b in zip(found, expected, strict=True)]
    print(f"{preset}, {len(found[1]):4} rows: priors differ by {gaps[0]:.4f}, wdl by {gaps[1]:.4f}")
    fine = gaps[0] <= PRIOR_LIMIT and gaps[1] <= WDL_LIMIT
    return [] if fine else [f"{preset}, {len(found[1])} rows: {gaps}"]


def main(device: str) -> int:
    if device.startswith("cuda") and not torch.cuda.is_available():
        print(
            "gpu_check: torch finds no GPU on this machine; `python -m bench.gpu_check cpu` tries the check"
        )
        return 2
    wrong = [line for preset in PRESETS_CHECKED for line in check(preset, device)]
    if wrong:
        print("WRONG:", *wrong, sep="\n  ")
        return 1
    figures = run_inference(PRESETS_CHECKED, device)
    print(json.dumps({"device": device, **figures}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "cuda"))
