"""bfloat16 beside float32 on this CPU: a position answered and a training step, in turns, processor time of
one thread.

`net.cpu_engine.faster_dtype` chooses by the processor's features; the last column says whether it is right.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Literal

import numpy as np
import torch

from bench.inference import chess_like_batch
from bench.turns import in_turns, ratio
from games import get_game
from net.architectures.registry import build, named
from net.batches import Batch
from net.cpu_engine import CpuEngine, faster_dtype
from net.folding import fold
from trainer.config import LossSettings, OptimizerSettings
from trainer.sampler_kernel import Samples
from trainer.train_step import TrainStep, prepare_thread

NETWORKS = (("connect_four", "3x48"), ("connect_four", "4x64"), ("chess", "tiny"), ("chess", "small"))
ROWS, TRAINED_ROWS = 64, 256
SECONDS = 0.5
PRECISIONS: dict[torch.dtype, Literal["float32", "bfloat16"]] = {
    torch.float32: "float32",
    torch.bfloat16: "bfloat16",
}


def microseconds_of(action: Callable[[], None], rows: int) -> float:
    """Processor time of `action` for each of its `rows`, in microseconds."""
    action()
    begin, runs = time.process_time(), 0
    while time.process_time() < begin + SECONDS:
        action()
        runs += 1
    return (time.process_time() - begin) / (runs * rows) * 1e6


def answering(game_name: str, network: str, dtype: torch.dtype) -> Callable[[], float]:
    game = get_game(game_name)
    folded = fold(build(named(network), game, game.history).eval())
    engine = CpuEngine(folded, game, game.history, dtype, threads=1)
    batch = Batch(*chess_like_batch(game, ROWS))

    def answer() -> None:
        engine.start(batch, 0)
        engine.finish(0)

    return lambda: microseconds_of(answer, ROWS)


def training(game_name: str, network: str, dtype: torch.dtype) -> Callable[[], float]:
    game = get_game(game_name)
    settings = replace(OptimizerSettings(), precision=PRECISIONS[dtype], batch=TRAINED_ROWS)
    built = build(named(network), game, game.history)
    step = TrainStep(game, game.history, built, settings, LossSettings(), torch.device("cpu"))
    samples = made_up_samples(game_name)
    return lambda: microseconds_of(lambda: step.train(samples), TRAINED_ROWS)


def made_up_samples(game_name: str) -> Samples:
    """Positions of random games with random outcomes and even policies."""
    features, counts, actions = chess_like_batch(get_game(game_name), TRAINED_ROWS)
    rows = np.repeat(np.arange(TRAINED_ROWS), counts)
    return Samples(
        packed_features=features,
        classes=np.random.default_rng(0).integers(0, 3, TRAINED_ROWS),
        root_values=np.zeros(TRAINED_ROWS, np.float32),
        capped=np.zeros(TRAINED_ROWS, np.uint8),
        plies_left=np.full(TRAINED_ROWS, 5, np.int32),
        rows=rows,
        actions=actions.astype(np.int64),
        shares=(1 / counts[rows]).astype(np.float32),
    )


def run() -> dict[str, float]:
    """A table; `NAME_answer` and `NAME_step` are the ratios of bfloat16 over float32."""
    prepare_thread(1)
    figures: dict[str, float] = {}
    print(f"chosen here: {faster_dtype()}; microseconds a position, median (least to most)")
    for game, network in NETWORKS:
        for what, side in (("answer", answering), ("step", training)):
            torch.manual_seed(0)
            found = in_turns({str(dtype): side(game, network, dtype) for dtype in PRECISIONS})
            plain, short = (found[str(dtype)] for dtype in PRECISIONS)
            share = ratio(short, plain)
            medians = f"float32 {np.median(plain):8.1f}  bfloat16 {np.median(short):8.1f}"
            print(f"  {game:12} {network:6} {what:6}  {medians}  bfloat16/float32 {share.text('.2f')}")
            figures[f"{game}_{network}_{what}"] = round(share.median, 2)
    return figures
