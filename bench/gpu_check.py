"""`make gpu-check`: is the CUDA path right, and what does it serve? One call, at most ten minutes.

First, answers and a training step are compared with those of the CPU: for several batch sizes, with replaced
weights, with numbers too large for float16, and with almost no memory left. Then rates are measured:
evaluations per second of a running azserver on one GPU and on all GPUs, with workers that play by rings; the
trainer's step; and the evaluator alone by batch size, with and without torch's compiler.

`python -m bench.gpu_check [DEVICE]`: DEVICE is `cuda` (default), `cuda:N`, or `cpu`, which takes the same
path without a GPU, so that the check itself can be tested. Exits with 1 if an answer is wrong.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import os
import re
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from bench.inference import GAME, chess_like_batch
from bench.loop import running_server
from bench.random_games import random_game
from net.architectures.network import Network, build
from net.architectures.registry import named
from net.inference import Inference
from net.planes import PlaneShape, features_tensor, unpack
from net.weights import WeightsMeta
from protocol.frames import LeafBatch
from trainer.config import LossSettings, OptimizerSettings, TrainerConfig
from trainer.sampler import Sampler
from trainer.train_step import TrainStep
from trainer.window import Window

PRESETS_CHECKED = ("tiny", "small", "medium", "tf-small")
ROWS = (1, 7, 64, 300)
PRIOR_LIMIT = 0.01
"""Largest difference in a prior that bfloat16 may cause."""
WDL_LIMIT = 0.015
LEAST_TIMED = 64
"""Fewest rows of a batch that is timed."""
SECONDS_A_SIZE = 1.0
STEP_LIMIT = 0.02
"""Largest relative difference of losses and gradient norm of a training step."""
STEP_SECONDS = 5.0
SETTLING_SECONDS = 20.0
SYSTEM_SECONDS = 20.0
LIMIT_SECONDS = 420.0
"""Time limit for all rates. The comparisons before them take two or three minutes, mostly for compiling."""
MIB_LEFT = 600
"""Memory of the device that `check_memory` leaves: too little for the largest batch of MEMORY_PRESET."""
MEMORY_PRESET = "medium"
ROLES = ("worker", "evaluator", "front")
"""Processes of azserver whose processor time per evaluation is shown."""


def scrambled(preset: str) -> Network:
    """Return a network whose answers differ between positions; those of a new network are nearly uniform."""
    torch.manual_seed(1)
    network: Network = build(named(preset), GAME, GAME.history).eval()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.05)
    return network


@contextmanager
def loaded(network: Network, preset: str, device: str, **how: Any) -> Iterator[Inference]:
    """Yield an engine on `device` with the network; it is closed at the end."""
    with closing(Inference(GAME, GAME.history, device, **how)) as inference:
        inference.use(network, WeightsMeta(GAME.name, GAME.history, named(preset)))
        yield inference


@torch.inference_mode()
def plain_answers(network: Network, batch: LeafBatch) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Return priors over the legal moves and wdl, computed in float32 on the CPU in the slow, obvious way."""
    features, counts, actions = batch
    planes = unpack(features_tensor(features), PlaneShape.of(GAME, GAME.history), torch.float32)
    logits, value = network(planes)
    priors, begin = [], 0
    for row, count in enumerate(counts):
        legal = torch.from_numpy(actions[begin : begin + count].astype(np.int64))
        priors.append(torch.softmax(logits[row, legal], 0).numpy())
        begin += int(count)
    return np.concatenate(priors), torch.softmax(value, 1).numpy()


def check(preset: str, device: str) -> list[str]:
    """Return the faults of this preset's answers on `device`, and print the differences."""
    network, wrong = scrambled(preset), list[str]()
    with loaded(network, preset, device, compiled=True) as inference:
        for version in (1, 2):  # the second replaces the weights of a running engine
            inference.use(network, WeightsMeta(GAME.name, GAME.history, named(preset), version=version))
            batches = [chess_like_batch(rows, seed=version) for rows in ROWS]
            for first, second in itertools.pairwise(batches):
                tickets = [inference.submit(first), inference.submit(second)]  # two in flight
                for batch, ticket in zip((first, second), tickets, strict=True):
                    wrong += differences(preset, inference.collect(ticket), plain_answers(network, batch))
            with torch.no_grad():
                for parameter in network.parameters():
                    parameter.mul_(0.9)
    return wrong


def check_sparse(device: str) -> list[str]:
    """Return the faults of a sparse network's answers on `device`, compared with its CPU kernels."""
    network, answers = scrambled("sparse"), []
    for where in (device, "cpu"):
        with loaded(network, "sparse", where, target_rows=LEAST_TIMED) as inference:
            answers.append(inference.run(chess_like_batch(ROWS[-1])))
    return differences("sparse", *answers)


def check_overflow(device: str) -> list[str]:
    """Return the faults of answers whose first layer, or only policy, exceeds float16, in the batch that
    detects this and afterwards."""
    tower: Any = scrambled("tiny")
    policy: Any = scrambled("tiny")
    with torch.no_grad():
        tower.start.norm.weight.mul_(1e6)  # about 1 again before the outputs
        tower.policy.hidden.norm.weight.mul_(1e-6)
        tower.value.narrow.norm.weight.mul_(1e-6)
        policy.policy.hidden.norm.weight.mul_(1e6)
        policy.policy.out.weight.mul_(1e-6)
    batch, wrong = chess_like_batch(ROWS[-1]), list[str]()
    for network in (tower, policy):
        expected = plain_answers(network, batch)
        with loaded(network, "tiny", device, compiled=True) as inference:
            for version in (1, 2):
                inference.use(network, WeightsMeta(GAME.name, GAME.history, named("tiny"), version=version))
                wrong += differences("tiny beyond float16", inference.run(batch), expected)
    return wrong


def check_memory(device: str) -> list[str]:
    """Return the faults of answers when almost all memory of the GPU is in use."""
    network, batch = scrambled(MEMORY_PRESET), chess_like_batch(LEAST_TIMED)
    torch.cuda.empty_cache()
    # Take all but a little memory, so that large batches find no room.
    taken = torch.empty(
        max(0, torch.cuda.mem_get_info(device)[0] - (MIB_LEFT << 20)), dtype=torch.uint8, device=device
    )
    with loaded(network, MEMORY_PRESET, device, compiled=True) as inference:
        what = f"{MEMORY_PRESET} with {MIB_LEFT} MiB, which hold {inference.max_rows} rows"
        wrong = differences(what, inference.run(batch), plain_answers(network, batch))
    del taken
    torch.cuda.empty_cache()
    return wrong


def differences(preset: str, found: tuple[Any, Any], expected: tuple[Any, Any]) -> list[str]:
    gaps = [float(np.abs(a.astype(np.float32) - b).max()) for a, b in zip(found, expected, strict=True)]
    print(f"{preset}, {len(found[1]):4} rows: priors differ by {gaps[0]:.4f}, wdl by {gaps[1]:.4f}")
    fine = gaps[0] <= PRIOR_LIMIT and gaps[1] <= WDL_LIMIT
    return [] if fine else [f"{preset}, {len(found[1])} rows: {gaps}"]


def served_rates(preset: str, device: str, kernels: str) -> dict[str, int]:
    """Return the positions per second by batch size, with as many batches in flight as evaluators use, and
    the batch size that the evaluator would choose."""
    os.environ["AZ_CUDA_KERNELS"] = kernels
    with loaded(scrambled(preset), preset, device, compiled=True) as inference:
        found = {"target_rows": inference.target_rows}
        for rows in (size for size in inference.buckets if size >= LEAST_TIMED):
            batch = chess_like_batch(rows)
            tickets = deque(inference.submit(batch) for _ in range(inference.in_flight))
            start, done = time.perf_counter(), 0
            # Collect the oldest batch and begin another one, so that the GPU never waits.
            while time.perf_counter() < start + SECONDS_A_SIZE:
                inference.collect(tickets.popleft())
                tickets.append(inference.submit(batch))
                done += rows
            found[str(rows)] = round(done / (time.perf_counter() - start))
            for ticket in tickets:
                inference.collect(ticket)
        print(f"{preset}, {inference.device_name}: {found}", flush=True)
    return found


def trainer_on(device: str, preset: str, batch: int, precision: Any = "auto") -> TrainStep:
    torch.manual_seed(1)
    optimizer = OptimizerSettings(batch=batch, precision=precision)
    network = build(named(preset), GAME, GAME.history)
    return TrainStep(GAME, GAME.history, network, optimizer, LossSettings(), torch.device(device))


def window_of(games: int) -> Window:
    rng, window = np.random.default_rng(1), Window(GAME, 100_000, visited_per_position=22.0)
    for _ in range(games):
        window.add(random_game(GAME, rng, simulations=100))
    return window


def check_step(device: str) -> list[str]:
    """Return the faults of a training step on `device`, whose losses and gradient should equal the CPU's."""
    samples = Sampler(GAME, GAME.history).sample(window_of(4), np.random.default_rng(2), 64)
    found = []
    for where in ("cpu", device):
        one = trainer_on(where, "tiny", 64, "float32")
        one.train(samples)
        figures = one.figures()
        assert figures is not None
        found.append((figures.policy_loss, figures.value_loss, figures.gradient_norm))
    print(f"a training step of tiny: policy loss, value loss and gradient {found[1]}, on the CPU {found[0]}")
    is_right = np.allclose(found[0], found[1], rtol=STEP_LIMIT)
    return [] if is_right else [f"a training step: {found[1]} for {found[0]}"]


def step_rates(preset: str, device: str, batch: int) -> dict[str, float]:
    """Return the milliseconds of a step of `batch` positions, and of drawing these positions, which runs in
    parallel on a GPU."""
    rng, window, one = np.random.default_rng(3), window_of(20), trainer_on(device, preset, batch)
    sampler = Sampler(GAME, GAME.history, threads=TrainerConfig().threads())
    began = time.perf_counter()
    for _ in range(2):  # the first one compiles
        one.train(sampler.sample(window, rng, batch))
        one.figures()  # waits for the step
    ready = time.perf_counter() - began
    start, drawing, steps = time.perf_counter(), 0.0, 0
    while steps == 0 or time.perf_counter() < start + STEP_SECONDS:
        begin = time.perf_counter()
        samples = sampler.sample(window, rng, batch)
        drawing += time.perf_counter() - begin
        one.train(samples)
        steps += 1
    one.figures()
    step_ms = 1e3 * (time.perf_counter() - start) / steps
    found = {
        "step_ms": round(step_ms, 1),
        "of_that_drawing_ms": round(1e3 * drawing / steps, 1),
        "compiled_after_s": round(ready, 1),
    }
    print(f"{preset}, training steps of {batch} positions: {found}", flush=True)
    return found


def system_rate(devices: str, preset: str) -> dict[str, float]:
    """Return the rate of a running azserver with these devices. Its own workers play by rings, and azserver
    chooses the number of rows in flight."""
    with running_server("--gpus", devices, "--net", preset) as watcher:
        turn = asyncio.run(watcher.steady(SETTLING_SECONDS, SYSTEM_SECONDS))
    found = {
        "evals_per_s": round(turn.rate("evals")),
        "rows_a_batch": round(turn.more("evals") / max(turn.more("batches"), 1), 1),
        "target_rows": turn.last["target_rows"],
        "devices_busy": round(turn.rate("device_busy_s"), 2),
        **{f"{role}_us": round(1e6 * turn.more(f"{role}_s") / turn.more("evals"), 2) for role in ROLES},
    }
    print(f"{preset}, azserver --gpus {devices}: {found}", flush=True)
    return found


def figures_of(device: str) -> dict[str, Any]:
    """Return all figures, the most useful first. A part that would begin too late is left out, with a
    message."""
    began = time.monotonic()
    all_gpus = ",".join(map(str, range(torch.cuda.device_count())))
    systems = {"cpu": ["cpu"], "cuda": list(dict.fromkeys(["0", all_gpus]))}.get(device)
    on_cpu = device == "cpu"  # a small form, where all ways to run kernels are the same
    figures: dict[str, Any] = {}

    def add(name: str, seconds: float, part: Callable[..., Any], *arguments: Any) -> None:
        if time.monotonic() + seconds > began + LIMIT_SECONDS:
            print(f"{name}: left out, it could take {seconds:.0f} s more than there are")
        else:
            figures[name] = part(*arguments)

    for devices in systems or [device.removeprefix("cuda:")]:
        add(f"served by azserver --gpus {devices}", 120, system_rate, devices, "tiny" if on_cpu else "medium")
    add("training steps", 30, step_rates, "tiny" if on_cpu else "medium", device, 64 if on_cpu else 4096)
    for preset in ("tiny",) if on_cpu else PRESETS_CHECKED:
        for kernels in ("plain",) if on_cpu else ("compile", "cudnn"):
            add(f"positions/s of {preset} {kernels}", 60, served_rates, preset, device, kernels)
    return figures


def main(device: str) -> int:
    if not re.fullmatch(r"cpu|cuda(:\d+)?", device):
        print(f"gpu_check: {device!r} is no device: give cuda, cuda:N or cpu")
        return 2
    if device.startswith("cuda") and not torch.cuda.is_available():
        print(
            "gpu_check: torch finds no GPU on this machine; `python -m bench.gpu_check cpu` tries the check"
        )
        return 2
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    wrong = [line for preset in PRESETS_CHECKED for line in check(preset, device)]
    for one in (check_step, check_sparse, check_overflow, *([check_memory] if device != "cpu" else [])):
        wrong += one(device)
    if wrong:
        print("WRONG:", *wrong, sep="\n  ")
        return 1
    print(json.dumps({"device": device, **figures_of(device)}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "cuda"))
