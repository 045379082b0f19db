"""The trainer's steps beside the bare step: samples drawn from a window of stored games, against one batch
that is always in memory. One thread, in turns, processor time.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from bench.formats import made_up_samples
from bench.random_games import random_game
from bench.stored_games import entry
from bench.turns import Spread, in_turns, ratio
from games import get_game
from games.spec import Game
from net.architectures.network import build
from net.architectures.registry import named
from store.reader import StoreReader
from store.sqlite import Store
from trainer.config import TrainerConfig
from trainer.train_step import TrainStep, choose_device, prepare_thread
from trainer.training_loop import TrainingLoop

NETWORKS = (("connect_four", "3x48", 4000), ("chess", "3x48", 300))
"""Game, network, stored games."""
SECONDS = 3.0
"""Processor time of a turn."""


def filled_loop(game: Game, config: TrainerConfig, network: str, games: int, folder: Path) -> TrainingLoop:
    """A trainer's loop whose window holds `games` random games."""
    rng = np.random.default_rng(1)
    store = Store(folder / "games.db", game.name)
    store.commit([entry(random_game(game, rng, simulations=64)) for _ in range(games)])
    store.close()
    loop = TrainingLoop(config, game, game.history, network, folder)
    reader = StoreReader(folder / "games.db")
    loop.fill(reader, games)
    reader.close()
    return loop


def steps_a_second(step: Callable[[], None]) -> float:
    """Steps for each second of processor time."""
    begin, steps = time.process_time(), 0
    while time.process_time() < begin + SECONDS:
        step()
        steps += 1
    return steps / (time.process_time() - begin)


def run() -> dict[str, float]:
    """`GAME_share`: the trainer's steps over the bare ones."""
    prepare_thread(1)
    figures: dict[str, float] = {}
    for game_name, network, games in NETWORKS:
        game, config = get_game(game_name), TrainerConfig(device="cpu", cpu_threads=1)
        config = replace(config, optimizer=replace(config.optimizer, batch=256, ema=0.998))
        built = build(named(network), game, game.history)
        optimizer, device = config.optimizer, choose_device("cpu")
        bare = TrainStep(game, game.history, built, optimizer, config.loss, device)
        samples = made_up_samples(game_name)
        with TemporaryDirectory() as folder:
            loop = filled_loop(game, config, network, games, Path(folder))
            loop.make_step()  # compiles the sampler
            sides = {
                "trainer": partial(steps_a_second, loop.make_step),
                "bare": partial(steps_a_second, partial(bare.train, samples)),
            }
            found = in_turns(sides)
        share = ratio(found["trainer"], found["bare"])
        rates = ", ".join(f"{name} {Spread.of(rate).text('.2f')}" for name, rate in found.items())
        print(f"{game_name} {network}, 256 samples: steps/s {rates}; trainer/bare {share.text('.3f')}")
        figures[f"{game_name}_share"] = round(share.median, 3)
    return figures
