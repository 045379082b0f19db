"""`azplay truth RUN|WEIGHTS`: how often a network's moves lose a known result."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tyro.conf import Positional

from protocol.settings import Count, Seed
from runtime.config import load
from runtime.exits import Exit, Fatal
from runtime.finding import RUNS, weights_named

if TYPE_CHECKING:
    from engine.nets import LoadedNet
    from runtime.aio import Stop

EXAMPLES = (
    "azplay truth runs/connect_four-tiny",
    "azplay truth runs/chess-tiny --simulations 0,100,800 --search puct --json truth.json",
    "azplay truth WEIGHTS.safetensors --limit 50 --no-untrained",
)
MOST_SIMULATIONS = 20_000


@dataclass(frozen=True)
class TruthConfig:
    """Measures the errors of a network on positions whose result is known (all of tic-tac-toe, solved Connect
    Four positions, chess endgames, ...), beside an untrained network with the same search and random
    moves."""

    network: Positional[str]
    """A run, by its folder or its name in --runs (its newest network is taken), or a weights file."""
    runs: Path = RUNS
    """Folder of all runs."""
    simulations: str = "0,64"
    """Simulations per move, separated by commas; 0 is the raw policy, without search."""
    search: str = ""
    """puct, gumbel, thompson, or with settings such as gumbel?gumbel_c_scale=0.1; empty: as in the self-play
    of the run to which the weights belong, else puct. Never with noise."""
    untrained: bool = True
    """Also measure an untrained network of the same shape, because search alone finds much."""
    limit: Count = 0
    """Positions per group; 0: all."""
    seed: Seed = 1
    """Seed of the untrained network and of positions that are chosen at random."""
    device: str = "cpu"
    """cpu or cuda:N."""
    threads: Count = 0
    """CPU threads of the network; 0: as many as cores."""
    json: Path | None = None
    """Write the figures to this file too."""


def main() -> int:
    """Entry point. Returns the exit status."""
    settings = load(TruthConfig, command="azplay truth", examples=EXAMPLES)
    simulations = simulations_from(settings.simulations)
    from runtime import aio

    weights = weights_named(settings.network, settings.runs)

    async def measured(_stop: Stop) -> None:
        await _measure(settings, weights, simulations)

    aio.run(measured)
    return int(Exit.OK)


def simulations_from(text: str) -> list[int]:
    """The numbers of simulations in `text`. Raises Fatal(CONFIG)."""
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if not numbers or not all(0 <= number <= MOST_SIMULATIONS for number in numbers):
        raise Fatal(
            f"--simulations is {text!r}, but must be numbers from 0 to {MOST_SIMULATIONS}, "
            "separated by commas, for example 0,64,800",
            Exit.CONFIG,
        )
    return list(dict.fromkeys(numbers))


async def _measure(settings: TruthConfig, weights: Path, simulations: list[int]) -> None:
    from engine.search_choice import search_for
    from evaluation.truth.errors import measure, rows_for, to_json, to_text, write_json

    nets = _nets(settings, weights)
    try:
        rows = rows_for(nets[0].game, settings.seed, settings.limit)
        search = search_for(settings.search, nets[0].game, weights)
        found = await measure(nets, rows, simulations, _tell, search)
    finally:
        for net in nets:
            net.close()
    print(to_text(found))
    if settings.json is not None:
        write_json(settings.json, to_json(nets[0].game.name, found))


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _nets(settings: TruthConfig, weights: Path) -> list[LoadedNet]:
    from engine.nets import load_net

    nets = [load_net(weights, device=settings.device, threads=settings.threads)]
    if settings.untrained:
        nets.append(
            load_net(
                None,
                nets[0].game.name,
                device=settings.device,
                threads=settings.threads,
                preset=_preset_of(weights),
                seed=settings.seed,
                history=nets[0].history,
            )
        )
    return nets


def _preset_of(weights: Path) -> str:
    """The name of the network's shape."""
    from net.architectures.registry import name_of
    from net.weights import read_meta

    return name_of(read_meta(weights.read_bytes()).architecture)
