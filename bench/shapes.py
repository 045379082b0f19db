"""Networks of several shapes, trained on the games of one run, as many steps or as long: which learns most?

`python -m bench.shapes runs/NAME 3x48 3x48,value_channels=16 tf3x48 [--steps 2000] [--seconds 0] [--seed 0]`;
with `--seconds` each makes the steps that fit into so many seconds of processor time. A shape is a preset or
sizes, then fields of its architecture. For each: steps, a step's time, positions a second in play, losses on
a twentieth of the games that none was trained on, and errors where the right move is known. All see the same
samples in the same order. Self-play would give each its own games: this says which shapes are worth a run,
not what they reach.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from dataclasses import dataclass, fields, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from bench.inference import chess_like_batch, measure
from engine.nets import load_net
from evaluation.truth.measuring import measure as measure_errors
from evaluation.truth.rows import rows_for
from games import get_game
from games.nearest import nearest
from games.spec import Game
from net.architectures.registry import build, named
from net.architectures.sizes import Architecture
from net.inference import Inference
from net.weights import load
from runtime.exits import Exit, Fatal, guarded
from runtime.runs import RunFolder
from store.reader import StoreReader
from trainer.config import LossSettings, OptimizerSettings
from trainer.held_out import HeldOut
from trainer.sampler import Sampler
from trainer.train_step import TrainStep, choose_device, prepare_thread
from trainer.window import Window

WINDOW = 400_000
NEWEST = 2**62
"""Beyond the last game of any store."""
HELD_OUT = 0.05
HELD_OUT_POSITIONS = 8192
BATCH_IN_PLAY = 64
SIMULATIONS = (0, 64)
PACE_STEPS = 10
"""Made by a throwaway network to see how many steps fit into `--seconds`."""


@dataclass(frozen=True)
class Lessons:
    """The newest games of a run."""

    game: Game
    history: int
    sampler: Sampler
    window: Window
    held_out: HeldOut


def shape(text: str) -> Architecture:
    """`3x48,value_channels=16`. Fatal(CONFIG) if it is none."""
    name, *changes = text.split(",")
    values: dict[str, Any] = {}
    try:
        architecture = named(name)
        kinds = {field.name: str(field.type) for field in fields(architecture)}
        for change in changes:
            key, _, value = change.partition("=")
            if key not in kinds:
                raise ValueError(f"there is no {key!r}; did you mean {nearest(key, kinds)!r}?")
            if kinds[key] == "int" and not value.isdecimal():
                raise ValueError(f"{key} must be a whole number, not {value!r}")
            values[key] = int(value) if kinds[key] == "int" else value
        return replace(architecture, **values)
    except ValueError as error:
        raise Fatal(f"{text!r} is no shape: {error}", Exit.CONFIG) from error


def lessons(run: Path) -> Lessons:
    """From the run's folder. Fatal(CONFIG) if there are no games."""
    if not (run / "games.db").exists():
        raise Fatal(f"{run} holds no games.db; name the folder of a run", Exit.CONFIG)
    about = RunFolder(run.parent, run.name).describe()
    game, history = get_game(about["game"]), about["history"]
    window, held_out = Window(game, WINDOW), HeldOut(game, HELD_OUT, WINDOW)
    reader = StoreReader(run / "games.db")
    for _, record in reader.records(game, reader.first_of_newest(WINDOW, NEWEST), NEWEST):
        (held_out.window if held_out.takes(record) else window).add(record)
    reader.close()
    return Lessons(game, history, Sampler(game, history, symmetric=bool(game.symmetries)), window, held_out)


def train(taught: Lessons, architecture: Architecture, steps: int, seed: int) -> tuple[TrainStep, float]:
    """A new network after `steps`, and the milliseconds of processor time a step took."""
    torch.manual_seed(seed)
    network = build(architecture, taught.game, taught.history)
    optimizer = OptimizerSettings(ema=0.995, cosine_steps=steps).filled_in()
    loss, device = LossSettings(value_q_share=0.25), choose_device("auto")
    learner = TrainStep(taught.game, taught.history, network, optimizer, loss, device)
    rng, spent = np.random.default_rng(seed), 0.0
    for _ in range(steps):
        samples = taught.sampler.sample(taught.window, rng, optimizer.batch)
        begun = time.process_time()
        learner.train(samples)
        spent += time.process_time() - begun
    return learner, 1000 * spent / steps


def steps_in(seconds: float, taught: Lessons, architecture: Architecture, seed: int) -> int:
    """Steps that fit into `seconds` of processor time, without those that warm up."""
    train(taught, architecture, PACE_STEPS, seed)
    _, step_ms = train(taught, architecture, PACE_STEPS, seed)
    return max(1, round(1000 * seconds / step_ms))


def speed(taught: Lessons, weights: Path) -> float:
    """Positions a second in play."""
    game, history = taught.game, taught.history
    inference = Inference(game, history, "cpu")
    inference.use(*load(weights, game=game, history=history))
    return measure(inference, chess_like_batch(game, BATCH_IN_PLAY, history=history))[0]


def errors(game: Game, weights: Path) -> list[str]:
    """Per cent of errors where it matters, by phase (or ending), for each of SIMULATIONS."""
    net = load_net(weights)
    *found, _ = asyncio.run(measure_errors([net], rows_for(game), SIMULATIONS))
    net.close()
    return [
        " / ".join(f"{100 * group.errors_matter:.1f}" for group in one.groups[:-1] or one.groups)
        for one in found
    ]


def tell(taught: Lessons, name: str, steps: int, seconds: float, seed: int) -> None:
    """One line of the table."""
    if seconds:
        steps = steps_in(seconds, taught, shape(name), seed)
    learner, step_ms = train(taught, shape(name), steps, seed)
    samples = taught.sampler.newest(taught.held_out.window, WINDOW, HELD_OUT_POSITIONS)
    figures = learner.evaluate(samples)
    with TemporaryDirectory() as folder:
        weights = Path(folder) / "net.safetensors"
        weights.write_bytes(learner.weights(1))
        pace, wrong = speed(taught, weights), errors(taught.game, weights)
    cells = [
        name,
        str(steps),
        f"{step_ms:.0f}",
        f"{pace:,.0f}",
        f"{figures.policy_loss:.4f}",
        f"{figures.value_loss:.4f}",
    ]
    print("| " + " | ".join([*cells, *wrong]) + " |", flush=True)


def _main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.shapes", description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("shapes", nargs="+")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=0.0, help="of processor time, in place of --steps")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if options.steps < 1 or options.seconds < 0:
        raise Fatal("--steps must be 1 or more, --seconds 0 or more", Exit.CONFIG)
    for name in options.shapes:
        shape(name)
    prepare_thread(1)
    taught = lessons(options.run)
    length = f"{options.seconds:g} s" if options.seconds else f"{options.steps} steps"
    print(f"{taught.window.positions:,} positions, {length} of 256, seed {options.seed}", flush=True)
    searched = [f"errors, {count} simulations" if count else "errors, raw policy" for count in SIMULATIONS]
    head = ["shape", "steps", "step ms", "positions/s", "held-out policy", "held-out value", *searched]
    print("| " + " | ".join(head) + " |\n|" + "---|" * len(head), flush=True)
    for name in options.shapes:
        tell(taught, name, options.steps, options.seconds, options.seed)
    return int(Exit.OK)


if __name__ == "__main__":
    sys.exit(guarded(_main))
