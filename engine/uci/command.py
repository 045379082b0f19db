"""`azplay uci`: the network as a chess engine for GUIs and match runners. docs/engine.md."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from runtime import aio, config

if TYPE_CHECKING:
    from engine.uci.driver import Driver


@dataclass(frozen=True)
class UciConfig:
    """Settings of `azplay uci`. The GUI can change most of them by options."""

    weights: Path | None = None
    """Network (.safetensors). Without it, an untrained one, which plays legal nonsense."""
    device: Literal["cpu", "cuda"] = "cpu"
    """Device of the network (option Backend)."""
    threads: int = 0
    """CPU threads of the network; 0: one a core (option Threads)."""
    hash: int = 256
    """MiB of the search tree (option Hash)."""
    leaves: int = 0
    """Positions evaluated together at most; 0: what the device likes (option MinibatchSize)."""
    search: str = "puct"
    """puct, gumbel, thompson, or with settings such as gumbel?gumbel_c_scale=0.1 (option Search). gumbel
    makes 800 simulations a move where neither --nodes nor the GUI says how many."""
    nodes: int = 0
    """Simulations of every move for which the GUI gives no number; 0: no bound."""
    preset: str = "tiny"
    """The untrained network: tiny, small, medium, alphazero, or sizes such as 6x96se."""
    seed: int = 0
    """Seed of the untrained network and of moves drawn by option Temperature."""


EXAMPLES = (
    "azplay uci --weights runs/chess-tiny/weights/newest",
    "azplay uci --weights FILE --search gumbel --nodes 800   (sequential halving, 800 simulations a move)",
    "azplay uci                                       (an untrained network, to try the GUI)",
)


def main() -> int:
    """Speak UCI on standard input and output until `quit`."""
    settings = config.load(
        UciConfig,
        command="azplay uci",
        examples=EXAMPLES,
        description="A chess engine that speaks UCI on standard input and output.",
    )

    async def engine(stop: aio.Stop) -> None:
        await _serve(settings, stop)

    aio.run(engine)
    return 0


async def _serve(settings: UciConfig, stop: aio.Stop) -> None:
    from engine.lines import Input
    from engine.uci.driver import LONGEST_LINE, Driver
    from engine.uci.machine import UciEngine
    from engine.uci.options import Options, Setup
    from engine.uci.thinker import GAME, prepare
    from games import get_game
    from runtime.weights_files import short_name

    setup = Setup(
        weights=str(settings.weights or ""),
        backend=settings.device,
        threads=settings.threads,
        hash_mib=settings.hash,
        leaves=settings.leaves,
        search=settings.search,
    )
    name = (
        f"azselfplay {short_name(settings.weights) if settings.weights else f'untrained {settings.preset}'}"
    )
    engine = UciEngine(get_game(GAME), name, Options(setup), settings.nodes)
    driver = Driver(engine, lambda wanted: prepare(wanted, settings.preset, settings.seed), _say)
    async with asyncio.TaskGroup() as group:
        watch = group.create_task(_end_on_signal(stop, driver))
        await driver.run(Input(sys.stdin.fileno(), LONGEST_LINE))
        watch.cancel()


async def _end_on_signal(stop: aio.Stop, driver: Driver) -> None:
    await stop.finishing.wait()
    driver.end()


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
