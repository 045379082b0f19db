"""`azplay mistakes RUN`: how often a run's own games throw away a result that is known."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tyro.conf import Positional

from protocol.settings import Count
from runtime.config import load
from runtime.exits import Exit, Fatal
from runtime.finding import RUNS

if TYPE_CHECKING:
    from protocol.records import GameRecord
    from store.reader import StoreReader

EXAMPLES = (
    "azplay mistakes runs/connect_four-tiny",
    "azplay mistakes connect_four-tiny --games 50 --last 10000",
    "azplay mistakes tic_tac_toe-tiny --games 0 --json mistakes.json",
)
PROGRESS_EVERY = 25


@dataclass(frozen=True)
class MistakesConfig:
    """Counts mistakes in a run's own games where the result is known (all of tic-tac-toe, Connect Four from
    ten stones on, ...): moves that throw a result away, outcomes and values that are wrong."""

    run: Positional[str]
    """Folder of a run, or its name in --runs."""
    runs: Path = RUNS
    """Folder of all runs."""
    games: Count = 100
    """How many of the newest games to check; 0: all. A hundred games of Connect Four take about two
    minutes."""
    last: Count = 0
    """Leave out games after this number (`azplay games RUN list`); 0: none."""
    json: Path | None = None
    """Write the figures to this file too."""


def main() -> int:
    """Entry point. Returns the exit status."""
    settings = load(MistakesConfig, command="azplay mistakes", examples=EXAMPLES)
    from evaluation.truth.errors import solution_of, write_json
    from evaluation.truth.mistakes import count, to_text
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


def _records(games: StoreReader, settings: MistakesConfig) -> Iterator[GameRecord]:
    from games import get_game
    from store.reader import Range

    wanted = Range(last=settings.last, newest=settings.games)
    for number, (_, record) in enumerate(games.sound(get_game(games.game), wanted), 1):
        yield record
        if number % PROGRESS_EVERY == 0:
            print(f"{number} games", file=sys.stderr, flush=True)
