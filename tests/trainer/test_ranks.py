"""A trainer of several ranks makes the steps that one makes, and ends as a whole."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.distributed as dist
from training_runs import GAME, fill, stored

from azselfplay.host.aio import Stop
from azselfplay.host.exits import Exit, Fatal
from bench.random_games import random_game
from trainer import gang
from trainer.__main__ import load
from trainer.gang import FOREVER, Gang, digest
from trainer.ranks import Ranks, place_of
from trainer.training_loop import TrainingLoop

torch.set_num_threads(1)

FLAGS = [
    *(
        "--cpu-threads",
        "1",
        "--window.positions",
        "5000",
        "--samples.held-out",
        "0",
        "--optimizer.ema",
        "0.9",
    ),
    *("--optimizer.batch", "33", "--loss.capped-value-weight", "0.25", "--optimizer.precision", "float32"),
]
BOARD = [
    *(
        "--net",
        "1x8",
        "--loss.heads",
        "moves_left:0.1,soft_policy:1,reply:0.15",
        "--samples.wins-share",
        "0.2",
    ),
    "--optimizer.sync-norm",
]
SPARSE = ["--net", "sparse"]
STEPS = 20


Trained = tuple[TrainingLoop, list[float]]


def steps_of(folder: Path, flags: list[str], ranks: Ranks | None = None) -> Trained:
    """Return what was trained for STEPS steps on games of which some were cut off and some plies are no
    policy targets, with its figures, and those of the network that plays."""
    rng = np.random.default_rng(2)
    records = [
        random_game(GAME, rng, simulations=20, targets=0.6, max_plies=7 if n % 3 else 0) for n in range(100)
    ]
    folder.mkdir()
    config = place_of(load(flags, {}), {}).config
    one = TrainingLoop(config, GAME, 1, "tiny", folder, ranks)
    fill(one, stored(folder, records), len(records))
    for _ in range(STEPS):
        one.make_step()
    trained, samples = one._train_step.figures(), one._sampler.newest(one.window, 500, 200)
    assert trained is not None
    played = one._train_step.evaluate(samples)
    return one, [*trained[:-1], *trained.heads.values(), *played[:3], *played.heads.values()]


def of_two_ranks(folder: Path, flags: list[str], monkeypatch: pytest.MonkeyPatch) -> Trained:
    """Return the same of two ranks, the second one a process of its own."""
    flags = [*flags, "--device", "cpu,cpu"]
    monkeypatch.setattr(sys, "argv", ["trainer", *flags])
    for name in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
        monkeypatch.setenv(name, "lo")

    async def main() -> Trained:
        ranks, over = Gang.of_children(place_of(load(flags, {}), {})), Stop()

        def train() -> Trained:
            found = steps_of(folder, flags, ranks)
            ranks.end()
            return found

        async with asyncio.TaskGroup() as group:
            group.create_task(ranks.run(over))
            found = await asyncio.to_thread(train)
            over.request()
        return found

    try:
        return asyncio.run(main())
    finally:
        dist.destroy_process_group()


@pytest.mark.parametrize(
    "flags", [BOARD, pytest.param(SPARSE, marks=pytest.mark.nightly)], ids=["board", "sparse"]
)
def test_two_ranks_make_the_steps_of_one(
    flags: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """With parts of different size, in rows and in everything that losses are divided by. Both ranks have the
    same weights then, bit by bit."""
    flags = [*FLAGS, *flags]
    alone, figures = steps_of(tmp_path / "1", [*flags, "--device", "cpu"])
    together, figures_of_two = of_two_ranks(tmp_path / "2", flags, monkeypatch)
    # Not the weights: Adam makes steps of full length of a gradient that is 0 but for rounding.
    assert figures_of_two == pytest.approx(figures, abs=1e-4)
    log = capfd.readouterr().err
    assert f"stopped at step {STEPS}, weights {digest(together._train_step.network)}" in log
