"""What the commands of all protocols share: their settings, and the loop that serves."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Self

from msgspec import Meta
from tyro.conf import Positional

from protocol.settings import Count, Positive, Seed
from runtime import aio
from runtime.exits import guarded, require
from runtime.finding import RUNS, one_network

if TYPE_CHECKING:
    from engine.core.driver import Driver
    from engine.core.orders import Engine, Order, Setup


@dataclass(frozen=True)
class EngineConfig:
    """Settings of every engine."""

    network: Positional[str] = ""
    """A run, by its folder or its name in --runs (its newest network is used), or a weights file. Empty: an
    untrained network, which only knows the rules."""
    weights: Path | None = None
    """The network, as a flag instead of NETWORK."""
    runs: Path = RUNS
    """Folder of all runs."""
    device: Literal["cpu", "cuda"] = "cpu"
    """Device of the network (option Backend)."""
    threads: Count = 0
    """CPU threads of the network; 0: one per core (option Threads)."""
    hash: Positive = 256
    """MiB of the search tree (option Hash)."""
    leaves: Count = 0
    """Most positions evaluated in one batch; 0: as many as suit the device (option MinibatchSize)."""
    search: str = "puct"
    """puct, gumbel, thompson, or with settings such as gumbel?gumbel_c_scale=0.1 (option Search). gumbel
    makes 800 simulations per move unless --nodes or the GUI sets a number."""
    nodes: Annotated[int, Meta(ge=0, le=10**9)] = 0
    """Simulations per move when the GUI gives no number; 0: no limit."""
    seed: Seed = 0
    """Seed of the untrained network and of moves drawn by option Temperature."""

    def resolved(self) -> Self:
        """The same settings, with the file of the network in `weights`. Raises Fatal(BAD_DATA) if there is
        none."""
        return replace(self, network="", weights=one_network(self.network, self.weights, self.runs))

    @property
    def name(self) -> str:
        """The name by which the engine introduces itself."""
        return f"azselfplay {self.weights.resolve().stem if self.weights else 'untrained tiny'}"

    def setup(self, game: str) -> Setup:
        """The set-up of the command line."""
        from engine.core.orders import Setup

        return Setup(
            weights=str(self.weights or ""),
            backend=self.device,
            threads=self.threads,
            hash_mib=self.hash,
            leaves=self.leaves,
            search=self.search,
            game=game,
        )


def serve(make: Callable[[], Engine], settings: EngineConfig, first: Sequence[Order] = ()) -> int:
    """Speak a protocol on standard input and output until it ends. Returns the exit code. The orders in
    `first` are carried out before the first line."""
    require("train", "an engine")

    from engine.core.driver import leave_if_preparing

    async def main(stop: aio.Stop) -> None:
        from engine.core.driver import LONGEST_LINE, Driver, prepare
        from engine.lines import Input

        driver = Driver(make(), lambda wanted: prepare(wanted, settings.seed), _say)
        async with asyncio.TaskGroup() as group:
            watch = group.create_task(_end_on_signal(stop, driver))
            await driver.run(Input(sys.stdin.fileno(), LONGEST_LINE), first)
            watch.cancel()

    def run() -> int:
        aio.run(main)
        return 0

    code = guarded(run)
    leave_if_preparing(code)
    return code


async def _end_on_signal(stop: aio.Stop, driver: Driver) -> None:
    await stop.finishing.wait()
    driver.end()


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
