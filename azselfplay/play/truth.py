"""`azplay truth`: how often a network's moves lose a known result (`play.truth_errors`)."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tyro.conf import Positional

from azselfplay.host import aio
from azselfplay.host.config import load
from azselfplay.host.exits import Exit, Fatal
from azselfplay.host.runs import check_result, write_result
from azselfplay.link.finding import RUNS, weights_named
from protocol.settings import MAX_SIMULATIONS, Count, Seed

TRUTH_EXAMPLES = (
    "azplay truth runs/connect_four-tiny",
    "azplay truth runs/chess-tiny --simulations 0,100,800 --search puct --json truth.json",
    "azplay truth WEIGHTS.safetensors --limit 50 --no-untrained",
)


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
    """puct, gumbel, thompson, or such as gumbel?gumbel_c_scale=0.1; empty: the one that
    plays best. Never with noise."""
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
    config = load(TruthConfig, command="azplay truth", examples=TRUTH_EXAMPLES)
    # Check the settings before anything is loaded.
    simulations = simulations_from(config.simulations)
    if config.json is not None:
        check_result(config.json, "--json")
    weights = weights_named(config.network, config.runs)

    found: tuple[str, Any] | None = None

    async def main(stop: aio.Stop) -> None:
        nonlocal found
        stop.waits_for = "nothing; what was measured is dropped"
        found = await aio.unless_stopped(measure_network(config, weights, simulations), stop)

    aio.run(main)
    if found is None:
        return int(Exit.INTERRUPTED)
    table, figures = found
    print(table)
    if config.json is not None:
        write_result(config.json, json.dumps(figures, indent=1).encode())
    return int(Exit.OK)


def simulations_from(text: str) -> list[int]:
    """Return the numbers of simulations in `text`. Raises Fatal(CONFIG)."""
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if not numbers or not all(0 <= number <= MAX_SIMULATIONS for number in numbers):
        raise Fatal(
            f"--simulations is {text!r}, but must be numbers from 0 to {MAX_SIMULATIONS}, "
            "separated by commas, for example 0,64,800",
            Exit.CONFIG,
        )
    return list(dict.fromkeys(numbers))


async def measure_network(config: TruthConfig, weights: Path, simulations: list[int]) -> tuple[str, Any]:
    """Return the measured table, and the figures for `--json`."""
    from azselfplay.play.driver import in_thread
    from azselfplay.play.nets import load_net, meta_of, settings_for_search
    from azselfplay.play.truth_errors import errors_table, measure, rows_for, to_json
    from azselfplay.search.warm import warm
    from net.architectures.registry import name_of

    device, threads = config.device, config.threads
    # The trained network comes first, as in the table.
    nets = [load_net(weights, device=device, threads=threads)]
    if config.untrained:
        # The untrained network has the same shape, so that the two differ only by training.
        shape = name_of(meta_of(weights).architecture)
        game, history = nets[0].game.name, nets[0].history
        untrained = load_net(
            None, game, device=device, threads=threads, preset=shape, seed=config.seed, history=history
        )
        nets.append(untrained)
    try:
        rows = rows_for(nets[0].game, config.seed, config.limit)
        settings = settings_for_search(config.search, nets[0].game, weights)
        # In a thread, because a stop need not wait for the compiler there. The networks share their code.
        await in_thread(partial(warm, nets[0].game.name, settings.search.selection, nets[0].own))
        tell = partial(print, file=sys.stderr, flush=True)
        found = await measure(nets, rows, simulations, tell, settings)
    finally:
        for net in nets:
            net.close()
    return errors_table(found), to_json(nets[0].game.name, found)
