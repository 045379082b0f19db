"""`azplay openings RUN`: how often common human openings are played in self-play, over training."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta
from tyro.conf import Positional

from runtime.config import load
from runtime.exits import Exit, Fatal
from runtime.finding import RUNS, run_named

if TYPE_CHECKING:
    from games.spec import Game
    from store.reader import StoreReader

EXAMPLES = (
    "azplay openings runs/chess-tiny               # table, and runs/chess-tiny/plots/openings.png",
    "azplay openings runs/chess-tiny --bins 40",
    "azplay openings runs/chess-tiny --out /tmp/plots",
)


@dataclass(frozen=True)
class OpeningsConfig:
    """Share of the self-play games that begin with each of a game's common openings (chess: AlphaZero's
    Table 2), by the weights that played them; in games without named openings, with each first move."""

    run: Positional[str]
    """Folder of a run, or its name in --runs."""
    runs: Path = RUNS
    """Folder of all runs."""
    bins: Annotated[int, Meta(ge=1, le=1000)] = 20
    """Ranges of weights versions, of about as many games each."""
    out: str = ""
    """Folder of the plots; empty: RUN/plots."""


def main() -> int:
    """Entry point of `azplay openings`."""
    settings = load(OpeningsConfig, command="azplay openings", examples=EXAMPLES)
    return report(settings)


def report(settings: OpeningsConfig) -> int:
    """Print the table and draw the figure. Fatal(BAD_DATA) if there are no games."""
    from evaluation.rating.openings_count import binned, draw_openings, openings_of, table
    from games import get_game
    from store.reader import Range, StoreReader

    run = run_named(settings.run, settings.runs)
    game = get_game(str(run.describe()["game"]))
    openings = openings_of(game)
    if not run.games.exists():
        raise Fatal(f"the run {run.path} has no games yet; wait for the first ones", Exit.BAD_DATA)
    reader = StoreReader(run.games)
    bins = binned(_played(reader, game, openings), settings.bins)
    if not bins:
        what = f"{run.games} has no games from the usual start yet whose first moves were searched"
        raise Fatal(f"{what}; wait for some", Exit.BAD_DATA)
    print(table(bins, list(openings)))
    games = sum(one.games for one in bins)
    simulations = next(record.simulations for _, record in reader.sound(game, Range()))
    title = f"{run.name}: {game.name}, {games:,} self-play games, {simulations} simulations a move"
    folder = Path(settings.out) if settings.out else run.path / "plots"
    for written in draw_openings(folder, title, bins, list(openings)):
        print(f"wrote {written}", file=sys.stderr)
    return int(Exit.OK)


def _played(
    reader: StoreReader, game: Game, openings: Mapping[str, tuple[int, ...]]
) -> Iterator[tuple[int, str | None]]:
    """`(version at the first move, opening)` of every game from the usual start whose first moves were all
    searched: moves drawn at random, or from the bare policy, are not the search's choice."""
    from evaluation.rating.openings_count import opening_in
    from store.reader import Range

    longest = max(len(moves) for moves in openings.values())
    for number, (_, record) in enumerate(reader.sound(game, Range()), 1):
        if number % 20_000 == 0:
            print(f"{number:,} games read", file=sys.stderr)
        if not record.start and record.visited[:longest].all():
            yield int(record.versions[0]), opening_in(record.actions[:longest].tolist(), openings)
