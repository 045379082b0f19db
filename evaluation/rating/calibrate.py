"""`python -m evaluation.rating.calibrate GAME`: measures the fixed players of a game against each other.

Its ratings are copied to `games/GAME/knowledge.py`, so that all ladders of a game share the same scale and
need no games between fixed players.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tyro.conf import Positional

from evaluation.rating.commands import RateConfig
from runtime import aio, config
from runtime.exits import Exit, guarded

EXAMPLES = (
    "python -m evaluation.rating.calibrate connect_four --games 2000",
    "python -m evaluation.rating.calibrate chess --games 1000 --folder /tmp/calibration",
    "python -m evaluation.rating.calibrate tic_tac_toe --anchors random,greedy,alphabeta:2",
)


@dataclass(frozen=True, kw_only=True)
class CalibrateConfig(RateConfig):
    """Measures the fixed players of a game against each other; `random` is 0."""

    game: Positional[str]
    """Name of the game, as listed above."""
    games: int = 2000
    """Games of each player, on average."""
    folder: str = "."
    """Folder of GAME-anchors.json, which keeps the games."""


def main() -> int:
    """Entry point of `python -m evaluation.rating.calibrate`."""
    settings = config.load(CalibrateConfig, command="calibrate", examples=EXAMPLES)
    settings.check()
    aio.run(lambda stop: calibrate(settings, stop))
    return int(Exit.OK)


async def calibrate(settings: CalibrateConfig, stop: aio.Stop) -> None:
    """Play until every player has its games, then print the ratings in the form of that table."""
    from evaluation.rating.book import ZERO
    from evaluation.rating.ladder import Session
    from games import get_game

    file = Path(settings.folder) / f"{settings.game}-anchors.json"
    session = Session(get_game(settings.game), settings, file, {ZERO: 0.0})
    try:
        await session.play([], stop)
    finally:
        await session.matches.close()
    _, rated = session.report([])
    print({one.entrant.name: round(one.rating.elo) for one in rated})


if __name__ == "__main__":
    raise SystemExit(guarded(main))
