"""Matches and positions for judges: networks by file, opponents by name, many games at once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from evaluation.match.elo import estimate, pair_counts
from evaluation.match.openings import Opening
from evaluation.match.players import make_player
from evaluation.match.runner import MatchSettings, PlayedGame, play_match
from experiments.measures import Measure
from games.spec import Game

CONCURRENT = 48
"""Games at once: they share the network's batches."""


def net_player(file: Path, simulations: int, search: str) -> str:
    """The spec of a network's player, 0 simulations being the raw policy."""
    return f"net:{file}@{simulations}/{search}" if simulations else f"policy:{file}"


def play(
    game: Game,
    player: str,
    opponent: str,
    openings: Sequence[Opening],
    *,
    max_plies: int = 0,
    seed: int = 0,
) -> list[PlayedGame]:
    """Every opening twice, colours swapped; the result is for `player`."""

    async def main() -> list[PlayedGame]:
        first, second = make_player(player, game), make_player(opponent, game)
        try:
            settings = MatchSettings(CONCURRENT, max_plies, seed=seed)
            return await play_match(game, first, second, openings, settings)
        finally:
            await first.close()
            await second.close()

    return asyncio.run(main())


def score(what: str, name: str, played: Sequence[PlayedGame], target: float | None = None) -> Measure:
    """Points a game (a draw is half of one), with the interval of paired games."""
    found = estimate(pair_counts([one.outcome_for_a for one in played]))
    return Measure(what, name, found.score, len(played), found.score_low, found.score_high, target)
