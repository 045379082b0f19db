"""The command `azplay analyse`: its settings, loading the network, and messages about its speed.
`play.analysis` reads, searches and writes.
"""

from __future__ import annotations

import contextlib
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tyro.conf import Positional

from azselfplay.host.config import load
from azselfplay.host.exits import Exit, Fatal
from azselfplay.link.finding import RUNS, weights_named
from protocol.settings import Count, SomeSimulations

if TYPE_CHECKING:
    from azselfplay.host.aio import Stop

EXAMPLES = (
    """echo '{"id": 1, "moves": ["e2e4"]}' | azplay analyse FILE.safetensors""",
    "azplay analyse FILE.safetensors --simulations 0 < positions.jsonl > policy.jsonl",
    """echo '{"id": 1, "moves": ["4", "4"]}' | azplay analyse --game connect_four""",
)


@dataclass(frozen=True)
class AnalyseConfig:
    """Positions in, evaluations out, one JSON object per line; docs/use_a_network.md lists all fields."""

    game: str = ""
    """The game; the names are at the top of `--help`. Empty: the network's game (without a network:
    chess)."""
    network: Positional[str] = ""
    """A run, by its folder or its name in --runs (its newest network is used), or a weights file. Empty: an
    untrained network."""
    runs: Path = RUNS
    """Folder of all runs."""
    simulations: SomeSimulations = 800
    """Simulations of lines without a number of their own (AlphaZero: 800); 0 uses the network alone."""
    search: str = ""
    """puct, gumbel, thompson, or such as gumbel?gumbel_c_scale=0.1; empty: the one that
    plays best. Never with noise."""
    device: str = "cpu"
    """cpu, cuda or cuda:N."""
    in_flight: Count = 0
    """Positions analysed at once; 0: as many as keep the device's batches full (3 times its best batch
    size)."""
    threads: Count = 0
    """CPU threads of the network; 0: one per core."""
    syzygy_path: str = ""
    """Folders of Syzygy endgame tables, separated as in PATH; of chess, the best move is one that they
    know."""


def main() -> int:
    """Entry point. Returns the exit status."""
    config = load(AnalyseConfig, command="azplay analyse", examples=EXAMPLES)
    weights = weights_named(config.network, config.runs) if config.network else None

    from azselfplay.host import aio  # these import torch, which --help does not need
    from azselfplay.play.analysis import Analyst, Service, positions_in_flight
    from azselfplay.play.nets import load_net, search_name, settings_for_search
    from azselfplay.play.syzygy import open_tables

    net = load_net(weights, config.game, device=config.device, threads=config.threads)
    # Tell the user: the answers of an untrained network look like any other answers.
    if weights is None:
        _say(f"no network given: an untrained network for {net.game.name} answers")
    with contextlib.closing(net):
        settings = settings_for_search(config.search, net.game, weights)
        tables = open_tables(net.game, config.syzygy_path) if config.syzygy_path else None
        name = search_name(settings)
        _say(f"search {name}; the first answers may wait up to a minute for it to be compiled")
        analyst = Analyst(net.game, net.evaluator, net.history, settings, tables)
        service = Service(
            analyst,
            in_flight=positions_in_flight(config.in_flight, net.target_rows),
            simulations=config.simulations,
        )

        async def serve(stop: Stop) -> None:
            if not await analyst.prepare(config.simulations, stop):
                return
            # These positions have been read already, so the sender expects answers.
            stop.waits_for = "positions in flight"
            try:
                await service.run(sys.stdin.fileno(), sys.stdout.fileno(), stop)
            # The task group raises its errors in an exception group.
            except* OSError as errors:
                raise Fatal(f"cannot write the answers: {aio.first_cause(errors)}", Exit.DISK) from errors

        aio.run(serve)
        seconds = time.perf_counter() - analyst.prepared_at
        evaluator = net.evaluator
        _say(
            f"{service.answers} positions and {service.errors} errors in {seconds:.1f} s: "
            f"{service.answers / seconds:,.0f} positions/s, {evaluator.rows / seconds:,.0f} evals/s, "
            f"mean batch {evaluator.rows / max(1, evaluator.batches):.0f} of {net.target_rows}"
        )
    return int(Exit.OK)


def _say(text: str) -> None:
    print(f"azplay analyse: {text}", file=sys.stderr, flush=True)
