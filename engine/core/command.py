"""What the commands of all protocols share: their settings, and how they serve."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from runtime import aio, extras

if TYPE_CHECKING:
    from engine.core.driver import Driver
    from engine.core.options import Setup
    from engine.core.orders import Engine


@dataclass(frozen=True)
class EngineConfig:
    """Settings of every engine."""

    weights: Path | None = None
    """Network (.safetensors). Without it an untrained network plays, which only knows the rules."""
    device: Literal["cpu", "cuda"] = "cpu"
    """Device of the network (option Backend)."""
    threads: int = 0
    """CPU threads of the network; 0: one per core (option Threads)."""
    hash: int = 256
    """MiB of the search tree (option Hash)."""
    leaves: int = 0
    """Most positions evaluated together; 0: what suits the device (option MinibatchSize)."""
    search: str = "puct"
    """puct, gumbel, thompson, or with settings such as gumbel?gumbel_c_scale=0.1 (option Search). gumbel
    makes 800 simulations per move unless --nodes or the GUI says how many."""
    nodes: int = 0
    """Simulations per move when the GUI gives no number; 0: no limit."""
    preset: str = "tiny"
    """The untrained network: tiny, small, medium, alphazero, or sizes such as 6x96se."""
    seed: int = 0
    """Seed of the untrained network and of moves drawn by option Temperature."""

    @property
    def name(self) -> str:
        """What the engine calls itself."""
        from runtime.weights_files import short_name

        return f"azselfplay {short_name(self.weights) if self.weights else f'untrained {self.preset}'}"

    def setup(self, game: str) -> Setup:
        """The set-up of the command line."""
        from engine.core.options import Setup

        return Setup(
            weights=str(self.weights or ""),
            backend=self.device,
            threads=self.threads,
            hash_mib=self.hash,
            leaves=self.leaves,
            search=self.search,
            game=game,
        )


def serve(make: Callable[[], Engine], settings: EngineConfig) -> int:
    """Speak a protocol on standard input and output until it ends; returns the exit code."""
    extras.require("train", "an engine")

    async def main(stop: aio.Stop) -> None:
        from engine.core.driver import LONGEST_LINE, Driver
        from engine.core.preparing import prepare
        from engine.lines import Input

        driver = Driver(make(), lambda wanted: prepare(wanted, settings.preset, settings.seed), _say)
        async with asyncio.TaskGroup() as group:
            watch = group.create_task(_end_on_signal(stop, driver))
            await driver.run(Input(sys.stdin.fileno(), LONGEST_LINE))
            watch.cancel()

    aio.run(main)
    return 0


async def _end_on_signal(stop: aio.Stop, driver: Driver) -> None:
    await stop.finishing.wait()
    driver.end()


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
