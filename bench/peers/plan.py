"""What is compared: groups of sides, each with its command and a description of its settings; and the tables
made of the counts, which `make peers ARGS=--write` puts into bench/PEERS.md.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from bench.peers.answering import Counts
from bench.turns import Spread, ratio

SIMULATIONS = 32
"""Simulations per move on all sides: the number in pgx's example."""

NETS = {"connect_four": "3x48", "chess": "2x32"}
"""Blocks and channels of the tower on all sides: of our Connect Four recipe, and of our `tiny`."""

TITLES = {"connect_four": "Connect Four", "chess": "Chess"}

PLIES = {"connect_four": 25.0, "chess": 120.0}
"""Searched moves per game, the same for all sides, because the length of games depends on the network."""

OURS = "ours"


@dataclass(frozen=True)
class Way:
    """A program, and one way to run it."""

    name: str
    module: str
    variant: str = ""
    is_peers: bool = False
    """Whether it runs in the peers' environment."""
    takes_all_cores: bool = False
    """Whether it is one process for all cores; otherwise one per core."""
    games: tuple[str, ...] = ("connect_four", "chess")
    batch: int = 0
    """Concurrent games; 0: the side's own choice."""


IN_PROCESS = Way(OURS, "ours")

FLOAT32 = Way("ours, float32", "ours", variant="float32")

SERVED = Way("ours, azserver with a worker", "ours_served", takes_all_cores=True)

OPEN_SPIEL = Way("OpenSpiel, AlphaZero", "with_open_spiel", is_peers=True)

OPEN_SPIEL_COMPILED = Way("OpenSpiel, network compiled by us", "with_open_spiel", "compiled", is_peers=True)

OPEN_SPIEL_MCTS = Way("OpenSpiel, MCTS", "with_open_spiel", is_peers=True)

PGX = Way("pgx with mctx", "with_pgx", is_peers=True, takes_all_cores=True)

PGX_MANY = replace(PGX, name="pgx with mctx, 1,024 games", batch=1024, games=("connect_four",))
"""As many as in its example. In chess a move of that many would take minutes."""

ONE_POSITION = Way("one position a call", "one_position_a_call", games=("connect_four",))

PYTHON_CHESS = Way("python-chess, asyncio", "asyncio_chess", games=("chess",))

WITH_NETWORK = (
    IN_PROCESS,
    FLOAT32,
    PGX,
    PGX_MANY,
    OPEN_SPIEL,
    OPEN_SPIEL_COMPILED,
    ONE_POSITION,
    PYTHON_CHESS,
)

ON_TWO_CORES = (IN_PROCESS, PGX, OPEN_SPIEL, ONE_POSITION, PYTHON_CHESS)
"""Fewer sides, because starting them takes most of the time."""

WITH_SERVER = (IN_PROCESS, SERVED)
"""A separate pair, because a stopped server's connections do not last long."""

FREE = (IN_PROCESS, PGX, PGX_MANY, OPEN_SPIEL_MCTS, ONE_POSITION, PYTHON_CHESS)


@dataclass(frozen=True)
class Group:
    """Sides that are measured in turns."""

    game: str
    cores: int
    has_network: bool
    ways: tuple[Way, ...] = field(default=())

    @property
    def title(self) -> str:
        net = f"{NETS[self.game]} network" if self.has_network else "a network that costs nothing"
        cores = "one core" if self.cores == 1 else f"{self.cores} cores"
        return f"{TITLES[self.game]}, {net}, {cores}"


def groups(cores: int) -> list[Group]:
    """All groups for a machine with `cores` cores; at most two are used."""
    found = [_group(game, 1, True, WITH_NETWORK) for game in NETS]
    if cores > 1:
        found += [_group(game, 2, True, ON_TWO_CORES) for game in NETS]
        found += [_group(game, 2, True, WITH_SERVER) for game in NETS]
    return found + [_group(game, 1, False, FREE) for game in NETS]


def _group(game: str, cores: int, has_network: bool, ways: Sequence[Way]) -> Group:
    return Group(game, cores, has_network, tuple(way for way in ways if game in way.games))


def commands(group: Group, way: Way, peers_python: Path, cache: Path) -> list[tuple[list[str], list[int]]]:
    """Command words and cores of each process of a side."""
    words = [
        *(str(peers_python if way.is_peers else sys.executable), "-m", f"bench.peers.{way.module}"),
        *("--game", group.game, "--simulations", str(SIMULATIONS), "--cache", str(cache)),
    ]
    words += ["--net", NETS[group.game]] if group.has_network else []
    words += ["--variant", way.variant] if way.variant else []
    words += ["--batch", str(way.batch)] if way.batch else []
    cores = sorted(os.sched_getaffinity(0))[: group.cores]
    return [(words, cores)] if way.takes_all_cores else [(words, [core]) for core in cores]


PAGE = Path(__file__).resolve().parents[1] / "PEERS.md"

BEGIN, END = "<!-- figures: make peers ARGS=--write -->", "<!-- end of figures -->"

HEAD = (
    "| program | simulations/s | network evaluations/s | games/s | ours beside it |",
    "|---|---|---|---|---|",
)


@dataclass
class Measured:
    """Results of one group: the counts of each side per second, turn by turn, and why others have none."""

    group: Group
    turns: dict[str, list[Counts]] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)


def with_simulations(measured: Measured) -> Measured:
    """For a side that counts only evaluations, assume as many simulations per evaluation as ours beside
    it."""
    ours, whole = measured.turns.get(OURS, []), dict(measured.turns)
    for name, turns in measured.turns.items():
        if any(one.simulations is None for one in turns):
            whole[name] = [
                replace(one, simulations=one.evaluations * (beside.simulations or 0) / beside.evaluations)
                for one, beside in zip(turns, ours, strict=False)
            ]
    return replace(measured, turns=whole)


def rates(turns: Sequence[Counts]) -> list[float]:
    """Simulations a second, turn by turn."""
    return [one.simulations or 0.0 for one in turns]


def table(measured: Measured) -> list[str]:
    """Lines of a table in Markdown, and a line for each side that is missing. Fastest first."""
    full = with_simulations(measured)
    lines = [f"**{full.group.title}**", "", *HEAD]
    ours = full.turns.get(OURS, [])
    by_speed = sorted(full.turns.items(), key=lambda item: -Spread.of(rates(item[1])).median)
    for name, turns in by_speed:
        simulations = Spread.of(rates(turns))
        evaluations = Spread.of([one.evaluations for one in turns]).median
        games = simulations.median / SIMULATIONS / PLIES[full.group.game]
        beside = "" if name == OURS or not ours else ratio(rates(ours), rates(turns)).text(".3g") + " times"
        # Where the network costs nothing, what reaches it says nothing either.
        shown = f"{evaluations:,.0f}" if full.group.has_network else ""
        lines.append(f"| {name} | {simulations.text()} | {shown} | {games:.3g} | {beside} |")
    lines += ["", *(f"Not measured: {name}: {reason}" for name, reason in full.missing.items())]
    return lines if full.missing else lines[:-1]


def figures(found: Sequence[Measured]) -> Mapping[str, Mapping[str, float]]:
    """Medians of simulations a second, by title and side, for the last line of the output."""
    return {
        one.group.title: {
            name: round(Spread.of(rates(turns)).median, 1)
            for name, turns in with_simulations(one).turns.items()
        }
        for one in found
    }


def written_into(page: str, lines: Sequence[str]) -> str:
    """`page` with `lines` between the two marks. Raises ValueError if it lacks them."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{PAGE} has no {BEGIN} ... {END}")
    return "\n".join([before + begin, "", *lines, "", end + after])
