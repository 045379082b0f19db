"""Measurements that judges share: matches against opponents, and errors on positions with known truth."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from engine.nets import load_net
from evaluation.elo import estimate, pair_counts
from evaluation.match import ms_a_move
from evaluation.openings import Opening
from evaluation.players import make_player
from evaluation.runner import MatchSettings, PlayedGame, play_match
from evaluation.truth_errors import PlayerErrors, measure
from experiments.measures import Measure
from experiments.recipe import Recipe
from experiments.training import Snapshot, Trained
from games.knowledge import Row
from games.spec import Game

CONCURRENT = 48
"""Concurrent games, which share the network's batches."""


def net_player(file: Path, simulations: int, search: str) -> str:
    """The player spec of a network; 0 simulations: the raw policy."""
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
    """Play every opening twice, colours swapped. Player A is `player`.

    The games of the last opening are played one after the other when everything is compiled, so their moves
    show how long the players take for one.
    """

    async def main() -> list[PlayedGame]:
        first, second = make_player(player, game), make_player(opponent, game)
        try:
            settings = MatchSettings(CONCURRENT, max_plies, seed=seed)
            most = await play_match(game, first, second, openings[:-1], settings)
            alone = await play_match(game, first, second, openings[-1:], replace(settings, concurrent=1))
            return most + alone
        finally:
            await first.close()
            await second.close()

    return asyncio.run(main())


def score(what: str, name: str, played: Sequence[PlayedGame]) -> Measure:
    """Points per game (a draw is half a point), with the interval of paired games."""
    found = estimate(pair_counts([one.outcome_for_a for one in played]))
    ms = ms_a_move(played[-2:])[0]
    return Measure(what, name, found.score, len(played), found.score_low, found.score_high, ms_a_move=ms)


def errors_of(
    trained: Trained,
    snapshot: Snapshot,
    recipe: Recipe,
    game: Game,
    rows: Sequence[Row],
    *,
    with_search: bool = True,
) -> list[PlayerErrors]:
    """Errors on `rows` of the raw policy, `with_search` of the search that judges
    (`recipe.judge_simulations`), and of random moves."""
    net = load_net(trained.path(snapshot))
    kinds = (0, recipe.judge_simulations) if with_search else (0,)
    found = asyncio.run(measure([net], rows, kinds, search=trained.search(recipe, game)))
    net.close()
    return found
