"""`python -m evaluation.rating.calibrate GAME`: measures the fixed players of a game against each other.

What it prints is copied into `evaluation.rating.anchors`, so that every ladder of a game stands on the same
scale and needs no games between fixed players.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from evaluation.rating.rate_config import RateConfig, check, same_for_all
from runtime import aio, config
from runtime.exits import Exit, guarded

EXAMPLES = (
    "python -m evaluation.rating.calibrate connect_four --games 2000",
    "python -m evaluation.rating.calibrate chess --games 1000 --folder /tmp/calibration",
    "python -m evaluation.rating.calibrate tic_tac_toe --anchors random,greedy,alphabeta:2",
)


@dataclass(frozen=True)
class CalibrateConfig(RateConfig):
    """How well the players are measured."""

    games: int = 2000
    """Games of each player, on average."""
    folder: str = "."
    """Where GAME-anchors.json, the games so far, is kept."""


def main() -> int:
    """Entry point of `python -m evaluation.rating.calibrate`."""
    from evaluation.rating.arguments import take_path

    argv = sys.argv[1:]
    game = take_path(argv, "GAME", "python -m evaluation.rating.calibrate GAME: for example connect_four")
    settings = config.load(
        CalibrateConfig,
        argv,
        command="calibrate GAME",
        examples=EXAMPLES,
        description="Measures the fixed players of a game against each other, `random` being 0.",
    )
    check(settings)
    aio.run(lambda stop: calibrate(game, settings, stop))
    return int(Exit.OK)


async def calibrate(name: str, settings: CalibrateConfig, stop: aio.Stop) -> None:
    """Play until every player has its games, then print the ratings as they stand in the table."""
    from evaluation.rating.anchors import ZERO, anchors_of
    from evaluation.rating.book import Book
    from evaluation.rating.entrants import anchor, names_of
    from evaluation.rating.matches import Matches
    from evaluation.rating.plan import chain_of
    from evaluation.rating.report import table
    from evaluation.rating.tournament import Goal, play_on
    from games import get_game

    game = get_game(name)
    players = [anchor(spec) for spec in anchors_of(settings.anchors, game)]
    book = Book(Path(settings.folder) / f"{name}-anchors.json", name, same_for_all(settings))
    book.enter(one.entrant for one in players)
    matches = Matches(game, settings)
    matches.expect(players)
    names = names_of(players)
    goal = Goal(settings.games, settings.pairing_openings, len(matches.openings))
    try:
        await play_on(
            book, names, chain_of(names, []), {ZERO: 0.0}, goal, matches.play, stop.finishing.is_set
        )
    finally:
        await matches.close()
    ratings = book.fit({ZERO: 0.0}).ratings
    print(table([one.entrant for one in players], ratings))
    print({one: round(ratings[one].elo) for one in names if one in ratings})


if __name__ == "__main__":
    raise SystemExit(guarded(main))
