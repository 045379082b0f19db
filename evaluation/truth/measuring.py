"""Asks networks for their moves in all rows and counts the errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from engine.nets import LoadedNet
from engine.search_choice import search_name
from evaluation.match.openings import Opening
from evaluation.truth.choosing import chosen_actions
from evaluation.truth.errors import TreeResult, count_errors, expected_errors, groups_of, play_whole_tree
from evaluation.truth.report import PlayerErrors
from evaluation.truth.rows import rows_for
from games.knowledge import Row
from games.spec import Game
from protocol.settings import SelfPlaySettings
from search.evaluation_settings import FOR_EVALUATION


async def measure(
    nets: Sequence[LoadedNet],
    rows: Sequence[Row],
    simulations: Sequence[int],
    progress: Callable[[str], None] = lambda _: None,
    search: SelfPlaySettings = FOR_EVALUATION,
) -> list[PlayerErrors]:
    """Errors of every network at every number of simulations of `search`, then those of random moves."""
    found = []
    for net in nets:
        for count in simulations:
            progress(f"{net.name}: {count} simulations, {len(rows)} positions")
            played = await chosen_actions(net, rows, count, search)
            groups = [count_errors(rows, played, group) for group in groups_of(rows)]
            found.append(
                PlayerErrors(net.name, count, groups, _trees(net.game, rows, played), search_name(search))
            )
    groups = [expected_errors(rows, group) for group in groups_of(rows)]
    return [*found, PlayerErrors("random moves", None, groups, {})]


def _trees(game: Game, rows: Sequence[Row], played: Sequence[int]) -> dict[str, TreeResult]:
    """In a game of few positions, if every one was asked: whole games against all replies."""
    if not game.few_positions or len(rows) < len(rows_for(game)):
        return {}
    actions = {
        Opening("", row.start, row.moves).game_history(game).state.tobytes(): action
        for row, action in zip(rows, played, strict=True)
    }
    return {
        "first": play_whole_tree(game, actions, first=True),
        "second": play_whole_tree(game, actions, first=False),
    }
