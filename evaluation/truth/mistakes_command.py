"""`azplay mistakes RUN`: how often a run's own games throw away a result that is known."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tyro.conf import Positional

from runtime import config
from runtime.exits import Exit, Fatal

if TYPE_CHECKING:
    from evaluation.truth.mistakes import Mistakes
    from protocol.records import GameRecord
    from store.reader import StoreReader

EXAMPLES = (
    "azplay mistakes runs/connect_four-tiny",
    "azplay mistakes connect_four-tiny --games 50 --last 10000",
    "azplay mistakes tic_tac_toe-tiny --games 0 --json mistakes.json",
)
PROGRESS_EVERY = 25
COLUMNS = ("not top", "outcome off", "search off", "it matters", "played loses", "top loses", "visits lose")


@dataclass(frozen=True)
class MistakesConfig:
    """How right a run's games are where the truth is known (all of tic-tac-toe, Connect Four from ten stones
    on, ...): moves that throw a result away, outcomes and values that are wrong."""

    run: Positional[str]
    """Folder of a run, or its name in --runs."""
    runs: Path = Path("runs")
    """Folder of all runs."""
    games: int = 100
    """So many of the newest games; 0: all. A hundred of Connect Four take about two minutes."""
    last: int = 0
    """Leave out games after this number (`azplay games RUN list`); 0: none."""
    json: Path | None = None
    """Write the figures to this file too."""


def main() -> int:
    """Entry point. Returns the exit status."""
    settings = config.load(
        MistakesConfig, command="azplay mistakes", examples=EXAMPLES, description=MistakesConfig.__doc__ or ""
    )
    for name in ("games", "last"):
        if getattr(settings, name) < 0:
            raise Fatal(f"--{name} must not be negative", Exit.CONFIG)
    from evaluation.truth.mistakes import count
    from evaluation.truth.report import write_json
    from evaluation.truth.rows import solution_of
    from games import get_game
    from store.reader import open_games

    with closing(open_games(settings.run, settings.runs)) as games:
        game = get_game(games.game)
        solution = solution_of(game, "its games cannot be checked")
        found = count(game, _records(games, settings), solution)
    if not found:
        raise Fatal(f"{games.path} has no searched position whose truth is known", Exit.BAD_DATA)
    print(to_text(found))
    if settings.json is not None:
        groups = [{**asdict(one), **one.shares()} for one in found]
        write_json(settings.json, {"game": games.game, "groups": groups})
    return int(Exit.OK)


def to_text(found: Sequence[Mistakes]) -> str:
    """Aligned columns, one line a group."""
    lines = [f"{'positions':10} {'searched':>8} " + " ".join(COLUMNS)]
    for one in found:
        share = one.shares()
        cells = [f"{share[name]:.1%}" for name in ("not_most_visited", "outcome_off", "search_off")]
        cells += [str(one.matter)]
        cells += [f"{share[name]:.1%}" for name in ("played_lose", "most_visited_lose", "visits_lose")]
        padded = (f"{cell:>{len(name)}}" for cell, name in zip(cells, COLUMNS, strict=True))
        lines.append(f"{one.group:10} {one.positions:8} " + " ".join(padded))
    return "\n".join(lines)


def _records(games: StoreReader, settings: MistakesConfig) -> Iterator[GameRecord]:
    from games import get_game
    from store.reader import Range

    wanted = Range(last=settings.last, newest=settings.games)
    for number, (_, record) in enumerate(games.sound(get_game(games.game), wanted), 1):
        yield record
        if number % PROGRESS_EVERY == 0:
            print(f"{number} games", file=sys.stderr, flush=True)
