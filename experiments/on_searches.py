"""`python -m experiments.on_searches NETWORK... --search S...`: what is a search worth to trained networks?

Every network plays the positions for final judgements with every search. Networks differ more than searches
do, so the difference from the first search is taken for each network by itself, and its interval is that of
the mean of these differences. A search is written SIMULATIONS or SIMULATIONS/SEARCH, such as
`64/puct?average_symmetries=true`; 0 simulations is the raw policy.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.nets import load_net
from engine.search_choice import search_for
from evaluation.truth.command import MOST_SIMULATIONS
from evaluation.truth.measuring import measure
from evaluation.truth.rows import final_rows
from experiments.ablation_page import PICTURE
from experiments.ablation_table import spread, values
from experiments.interval_picture import draw
from experiments.machine import describe_machine
from experiments.measures import mean_of
from runtime.exits import Exit, Fatal, guarded
from runtime.finding import RUNS, weights_named
from runtime.runs import write_atomically

ERRORS = "errors where it matters"
CHANGE = "difference from the first search, same network"


@dataclass(frozen=True)
class Choice:
    """A search to compare: `text` as it was given."""

    text: str
    simulations: int
    search: str


def choice_of(text: str) -> Choice:
    """Read SIMULATIONS[/SEARCH]. Raises argparse.ArgumentTypeError."""
    simulations, _, search = text.partition("/")
    if not simulations.isdecimal() or int(simulations) > MOST_SIMULATIONS:
        raise argparse.ArgumentTypeError(
            f"{text!r} does not begin with a number of simulations from 0 to {MOST_SIMULATIONS}, as in 64 or "
            "64/puct?average_symmetries=true"
        )
    return Choice(text, int(simulations), search or "puct")


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m experiments.on_searches", description=__doc__)
    parser.add_argument("networks", nargs="+", help="weights files, or runs (their newest network is taken)")
    parser.add_argument("--search", type=choice_of, nargs="+", required=True, help="the first is the base")
    parser.add_argument(
        "--name", required=True, help="name of the comparison: the folder is on_searches-NAME"
    )
    parser.add_argument("--out", type=Path, default=Path("results"))
    return parser.parse_args(argv)


def errors_of(file: Path, choices: Sequence[Choice]) -> list[float]:
    """Errors where it matters of one network by search, averaged over the groups of positions."""
    net = load_net(file)
    rows = [row for row in final_rows(net.game) if row.matters]
    searches = [search_for(choice.search, net.game) for choice in choices]
    found = []
    for choice, search in zip(choices, searches, strict=True):
        player, _ = asyncio.run(measure([net], rows, [choice.simulations], search=search))
        found.append(mean_of([one.errors_matter for one in player.groups[:-1] or player.groups]))
    net.close()
    return found


def compared(network: str, choices: Sequence[Choice], errors: Sequence[float]) -> list[dict[str, Any]]:
    """One entry for each search, with its errors; those after the first also with the difference from it."""
    found: list[dict[str, Any]] = []
    for choice, own in zip(choices, errors, strict=True):
        figures = {ERRORS: own, CHANGE: own - errors[0]} if found else {ERRORS: own}
        found.append({"network": network, "variant": choice.text, "figures": figures})
    return found


def _around(found: Sequence[dict[str, Any]], networks: int) -> str:
    around = spread(found, CHANGE).around(networks)
    return f"{100 * around:.1f}" if math.isfinite(around) else "-"


def page(name: str, found: Sequence[dict[str, Any]], machine: dict[str, Any]) -> str:
    """The results for people."""
    lines = [f"| search | {ERRORS} | {CHANGE} |", "|---|---|---|"]
    for variant in dict.fromkeys(one["variant"] for one in found):
        changes = values(found, variant, CHANGE)
        cell = f"{100 * mean_of(changes):+.1f} ± {_around(found, len(changes))}" if changes else ""
        lines.append(f"| `{variant}` | {100 * mean_of(values(found, variant, ERRORS)):.1f} % | {cell} |")
    networks = ", ".join(f"`{one}`" for one in dict.fromkeys(one["network"] for one in found))
    return (
        f"# Searches compared: {name}\n\n"
        f"`python -m experiments.on_searches`, {machine['processor']}, commit {machine['commit']}. Errors in "
        "the positions for final judgements in which some move throws the result away, averaged over the "
        "groups. Differences in points, paired by network, with the 95 % interval of their mean (Student's "
        "t, the spread taken as common to all searches).\n\n"
        + "\n".join(lines)
        + f"\n\n![Each network, and the mean of each search with its interval]({PICTURE})\n\n"
        f"Networks: {networks}\n"
    )


def _files(networks: Sequence[str]) -> dict[str, Path]:
    """Weights files by the names of the networks. Raises Fatal."""
    names = [Path(one).name for one in networks]
    if doubled := [name for name in names if names.count(name) > 1]:
        raise Fatal(f"several networks are called {doubled[0]}: give each a name of its own", Exit.USAGE)
    return {name: weights_named(Path(one), RUNS) for name, one in zip(names, networks, strict=True)}


def _main() -> int:
    options = parse()
    choices: list[Choice] = options.search
    files = _files(options.networks)
    if len(choices) < 2 or len({choice.text for choice in choices}) < len(choices):
        raise Fatal("--search needs at least two searches, all different", Exit.USAGE)
    folder: Path = options.out / f"on_searches-{options.name}"
    folder.mkdir(parents=True, exist_ok=True)
    machine = describe_machine()
    found: list[dict[str, Any]] = []
    for name, file in files.items():
        found += compared(name, choices, errors_of(file, choices))
        print(f"{name}: {[round(one['figures'][ERRORS], 4) for one in found[-len(choices) :]]}", flush=True)
    kept = {"machine": machine, "found": found}
    write_atomically(folder / "found.json", (json.dumps(kept, indent=1) + "\n").encode())
    draw(found, choices[0].text, folder / PICTURE, scale=100, unit="%")
    write_atomically(folder / "README.md", page(options.name, found, machine).encode())
    return int(Exit.OK)


if __name__ == "__main__":
    sys.exit(guarded(_main))
