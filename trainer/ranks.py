"""A trainer on several devices: the place of each of its processes (ranks), and what a step asks of them.

    python -m trainer --device cuda:0,cuda:1                       # starts the other ranks itself
    torchrun --standalone --nproc-per-node=2 -m trainer            # or torchrun starts all of them

Rank 0 is the trainer: connection, store, window, sampler, average, weights and checkpoints. The others only
make steps with it (`trainer.gang`):

    rank 0 -> rank r     its rows of the batch, r, r + ranks, ..., and the counts of the whole batch
    every rank           forward and backward over its rows
    all <-> all          the sum of all gradients and losses; then every rank changes its weights by it

Losses are sums over samples, divided by the counts of the whole batch (`Counts`). So the gradients of parts
of any size add up to the gradient of the batch, as they do on one device that computes a step in parts
(`TrainStep._backward`). All ranks begin with the same weights and apply the same sum, so their weights stay
identical bit by bit. Only batch normalisation sees each part alone, unless `optimizer.sync_norm` is set; rank
0's running means are used. A trainer of one process uses `Ranks` itself, where no other ranks exist.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import safetensors.numpy
from torch import Tensor, nn

from azselfplay.host.aio import Stop
from azselfplay.host.exits import Exit, Fatal
from net.gpu import found_gpus
from trainer.config import OptimizerSettings, TrainerConfig
from trainer.loss import Head
from trainer.sampler_kernel import Counts, Samples

STARTED = ("WORLD_SIZE", "RANK", "LOCAL_WORLD_SIZE", "LOCAL_RANK")
"""The environment variables by which a process knows that it is one of several ranks."""


class RankBatch(NamedTuple):
    """What a rank needs for a step: a batch, or the rank's rows of a batch."""

    samples: Samples
    counts: Counts
    """Counts of the whole batch."""
    minutes: float
    """How long training has lasted, for the learning rate."""


class Ranks:
    """The ranks as rank 0 sees them; in this class it is alone. Only the training thread uses it, except for
    `run`."""

    sync_norm = False
    """Whether batch normalisation asks all ranks, so that all must compute their rows at once."""
    given: TrainerConfig | None = None
    """The settings as the user gave them, if those of rank 0 have its own device and threads."""

    def prepare(self, network: nn.Module, settings: OptimizerSettings) -> None:
        """Change a network before training as the ranks need it."""

    def broadcast_state(
        self, step: int, weights: Callable[[], bytes], optimizer_state: Mapping[str, Any]
    ) -> None:
        """Give the other ranks the state that training begins with: the step, the network being trained (as a
        file), and the state of the optimizer. Called once, before the first step."""

    def scatter(self, batch: RankBatch) -> RankBatch:
        """Give the other ranks their rows of a batch, and return ours."""
        return batch

    def all_reduce(self, network: nn.Module, losses: Tensor) -> None:
        """Replace the gradients and `losses [n]` by their sums over all ranks."""

    def end(self) -> None:
        """Tell the other ranks to end."""

    async def run(self, stop: Stop) -> None:
        """Start the other ranks, if they are children of this process, and return when they have ended;
        `stop` comes after `end`. Raises Fatal when a rank ends too early."""


class Place(NamedTuple):
    """Which of the ranks a process is."""

    rank: int
    ranks: int
    config: TrainerConfig
    """The settings, with the device and the threads of this rank."""
    devices: Sequence[str]
    """Devices to check before training begins: its own, and those of the ranks that it starts."""

    @property
    def starts_others(self) -> bool:
        """Return whether the other ranks are children of this process."""
        return len(self.devices) > 1


def place_of(config: TrainerConfig, environment: Mapping[str, str]) -> Place:
    """Return the place of this process. With the environment variables of torchrun or of a rank 0, it is one
    of the ranks that these have started; otherwise it is rank 0 of as many ranks as `--device` names devices.
    Raises Fatal(CONFIG) if not every rank has a device of its own and a row of a batch."""
    devices = looked_at = config.devices
    rank = local = 0
    ranks = here = len(devices)
    # All variables must be there, because other launchers set some of them for any program.
    if all(name in environment for name in STARTED) and environment["WORLD_SIZE"] != "1":
        ranks, rank, here, local = (int(environment[name]) for name in STARTED)
        word = devices[0]
        # All ranks must come to the same answer, even if one driver is away.
        if word == "auto" and ((gpus := found_gpus()).names or gpus.may_come):
            word = "cuda"
        if word in ("auto", "cpu", "cuda") and len(devices) == 1:
            devices = [f"cuda:{one}" if word == "cuda" else "cpu" for one in range(here)]
        if len(devices) != here:
            raise Fatal(
                f"--device {config.device}: torchrun has started {here} ranks on this machine; name a device "
                "for each, or cpu or cuda for all",
                Exit.CONFIG,
            )
        looked_at = devices[local : local + 1]
    if ranks == 1:
        return Place(0, 1, config, devices)
    batch = config.optimizer.filled_in().batch
    if ranks > batch:
        raise Fatal(
            f"{ranks} ranks cannot share a batch of {batch} positions: name fewer devices, or give a larger "
            "--optimizer.batch",
            Exit.CONFIG,
        )
    own = replace(config, device=devices[local], cpu_threads=config.threads(here))
    return Place(rank, ranks, own, looked_at)


# ---- A batch as bytes: arrays by name, and never a pickle ---------------------------------------------


def packed(batch: RankBatch) -> bytes:
    columns = batch.samples._asdict() | {"counts": batch.counts, "minutes": batch.minutes}
    for name, own in (columns.pop("heads") or {}).items():
        columns |= {f"{name}.{field}": column for field, column in own._asdict().items()}
    # In C order: safetensors writes memory as it is, and ignores strides.
    arrays = {name: np.asarray(column, order="C") for name, column in columns.items() if column is not None}
    return safetensors.numpy.save(arrays)


def unpacked(data: bytes, heads: Mapping[str, Head]) -> RankBatch:
    """Return the batch that was `packed`; `heads`: the heads that are trained."""
    arrays = safetensors.numpy.load(data)
    columns: dict[str, Any] = {name: array if array.ndim else array.item() for name, array in arrays.items()}
    own = {
        name: head.targets(*(columns[f"{name}.{field}"] for field in head.targets._fields))
        for name, head in heads.items()
    }
    samples = Samples(**({name: columns.get(name) for name in Samples._fields} | {"heads": own}))
    return RankBatch(samples, Counts(*columns["counts"].tolist()), columns["minutes"])
