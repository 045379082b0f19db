"""`make gpu-check`: the CUDA path compared with the plain network on the CPU, then the rates that it serves,
with cuDNN's fused convolutions, without, and compiled by torch. One call, minutes.

`python -m bench.gpu_check [DEVICE]`: DEVICE is `cuda` (default), `cuda:N`, or `cpu`, which takes the same
path without a GPU, so that the check itself can be tested. Exits with 1 if an answer is wrong.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import time
from collections import deque
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from azselfplay.games import get_game
from azselfplay.games.spec import Game
from bench.inference import Arrays, chess_like_batch
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
LEAST_TIMED = 64
"""Fewest rows of a batch that is timed."""
SECONDS_A_SIZE = 1.0
COMPILED = "medium"
"""The one network that is also timed as compiled by torch, which takes minutes."""


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


def served_rates(preset: str, device: str, kernels: str) -> dict[str, int]:
    """Positions a second as evaluators serve them, with as many batches in flight, by rows of a batch; and
    the rows that the evaluator would collect."""
    os.environ["AZ_CUDA_KERNELS"] = kernels
    game = get_game("chess")
    inference = Inference(game, game.history, device)
    inference.use(scrambled(preset, game), WeightsMeta(game.name, game.history, named(preset)))
    found = {"target_rows": inference.target_rows}
    for rows in (size for size in inference.buckets if size >= LEAST_TIMED):
        batch = chess_like_batch(game, rows)
        tickets = deque(inference.submit(*batch) for _ in range(inference.in_flight))
        start, done = time.perf_counter(), 0
        while time.perf_counter() < start + SECONDS_A_SIZE:
            inference.collect(tickets.popleft())
            tickets.append(inference.submit(*batch))
            done += rows
        found[str(rows)] = round(done / (time.perf_counter() - start))
        for ticket in tickets:
            inference.collect(ticket)
    print(f"{preset}, {inference.device_name}: {found}", flush=True)
    inference.close()
    return found


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
    ways = [(preset, kernels) for preset in PRESETS_CHECKED for kernels in ("cudnn", "plain")]
    ways += [(COMPILED, "compile")]
    if device == "cpu":  # where all ways are the same
        ways = [(COMPILED, "plain")]
    figures = {f"{preset} {kernels}": served_rates(preset, device, kernels) for preset, kernels in ways}
    print(json.dumps({"device": device, "positions_per_s": figures}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "cuda"))
