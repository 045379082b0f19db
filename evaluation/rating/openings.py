"""`azplay openings RUN`: how often common human openings are played in self-play, over training."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from runtime import config
from runtime.exits import Exit, Fatal

if TYPE_CHECKING:
    from evaluation.rating.openings_count import Bin

EXAMPLES = (
    "azplay openings runs/chess-tiny               # table, and runs/chess-tiny/plots/openings.png",
    "azplay openings runs/chess-tiny --bins 40",
    "azplay openings runs/chess-tiny --out /tmp/plots",
)


@dataclass(frozen=True)
class OpeningsConfig:
    """What is read, and how finely it is counted."""

    bins: int = 20
    """Ranges of weights versions, of about as many games each."""
    out: str = ""
    """Folder of the plots; empty: RUN/plots."""


def main() -> int:
    """Entry point of `azplay openings`."""
    from evaluation.rating.arguments import take_path

    argv = sys.argv[1:]
    path = take_path(argv, "RUN", "azplay openings RUN: a run folder, for example runs/chess-tiny")
    settings = config.load(
        OpeningsConfig,
        argv,
        command="azplay openings RUN",
        examples=EXAMPLES,
        description="Share of the self-play games that begin with each of twelve common human openings "
        "(AlphaZero's Table 2), by the weights that played them; in other games than chess, with each "
        "first move. RUN: a run folder.",
    )
    if not 1 <= settings.bins <= 1000:
        raise Fatal("--bins must lie between 1 and 1000", Exit.CONFIG)
    return _report(Path(path), settings)


def _report(path: Path, settings: OpeningsConfig) -> int:
    from evaluation.rating.opening_plots import draw_openings
    from evaluation.rating.openings_count import binned, openings_of
    from evaluation.rating.points import open_run
    from games import get_game

    run = open_run(path)
    game = get_game(str(run.describe()["game"]))
    openings = openings_of(game)
    if not run.games.exists():
        raise Fatal(f"there are no games yet: {run.games} does not exist", Exit.BAD_DATA)
    bins = binned(_played(run.games, openings), settings.bins)
    if not bins:
        raise Fatal(f"there are no games from the usual start in {run.games} yet", Exit.BAD_DATA)
    print(table(bins, list(openings)))
    games = sum(one.games for one in bins)
    simulations = _simulations(run.games)
    title = f"{run.name}: {game.name}, {games:,} self-play games, {simulations} simulations a move"
    for written in draw_openings(
        Path(settings.out) if settings.out else run.path / "plots", title, bins, list(openings)
    ):
        print(f"wrote {written}", file=sys.stderr)
    return int(Exit.OK)


def _played(path: Path, openings: Mapping[str, tuple[int, ...]]) -> Iterator[tuple[int, str | None]]:
    """`(version at the first move, opening)` of every game from the usual start."""
    from evaluation.rating.openings_count import opening_in
    from evaluation.rating.self_play import records

    longest = max(len(moves) for moves in openings.values())
    for number, record in enumerate(records(path), 1):
        if number % 20_000 == 0:
            print(f"{number:,} games read", file=sys.stderr)
        if not record.start:
            yield int(record.versions[0]), opening_in(record.actions[:longest].tolist(), openings)


def _simulations(path: Path) -> int:
    """What the first game was played with."""
    from evaluation.rating.self_play import records

    return next(record.simulations for record in records(path))


def table(bins: Sequence[Bin], names: Sequence[str]) -> str:
    """Shares over the whole run, in its first and its last bin, and at most in any bin."""
    from evaluation.rating.openings_count import wilson

    total = sum(one.games for one in bins)
    first, last = bins[0], bins[-1]
    ends = [f"v{one.first_version}-{one.last_version}" for one in (first, last)]
    lines = [
        f"{'opening':28} {'games':>8} {'share':>7}  {'95 %':>13} {ends[0]:>10} {ends[1]:>10} {'most':>7}"
    ]
    for name in names:
        count = sum(one.counts.get(name, 0) for one in bins)
        low, high = wilson(count, total)
        shares = [one.counts.get(name, 0) / one.games for one in bins]
        lines.append(
            f"{name:28} {count:8,} {count / total:7.2%}  {low:5.2%} - {high:5.2%}"
            f" {shares[0]:10.2%} {shares[-1]:10.2%} {max(shares):7.2%}"
        )
    named = sum(sum(one.counts.values()) for one in bins)
    lines.append(f"{'any other':28} {total - named:8,} {1 - named / total:7.2%}")
    return "\n".join(lines)
