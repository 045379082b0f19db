"""Asks networks for their moves in all rows and counts the errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from games.spec import Game
from play.nets import LoadedNet
from play.search_choice import search_name
from play.truth import tic_tac_toe
from play.truth.choosing import chosen_actions
from play.truth.errors import TreeResult, count_errors, expected_errors, groups_of, play_whole_tree
from play.truth.report import PlayerErrors
from play.truth.rows import Row
from protocol.settings import SelfPlaySettings
from search.without_chance import WITHOUT_CHANCE


async def measure(
    nets: Sequence[LoadedNet],
    rows: Sequence[Row],
    simulations: Sequence[int],
    progress: Callable[[str], None] = lambda _: None,
    search: SelfPlaySettings = WITHOUT_CHANCE,
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
    """Tic-tac-toe, if every position was asked: whole games against all replies."""
    tree = tic_tac_toe.solve() if game.name == "tic_tac_toe" else {}
    going_on = {one.moves: key for key, one in tree.items() if not one.is_over}
    if not going_on or len(rows) < len(going_on):
        return {}
    actions = {going_on[row.moves]: action for row, action in zip(rows, played, strict=True)}
    return {
        "first": play_whole_tree(tree, actions, first=True),
        "second": play_whole_tree(tree, actions, first=False),
    }
