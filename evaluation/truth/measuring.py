"""The moves of networks in many positions at once, and how often they are wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import numpy as np

from engine.nets import LoadedNet
from engine.search_choice import search_name
from evaluation.match.openings import Opening
from evaluation.truth.errors import TreeResult, count_errors, expected_errors, groups_of, play_whole_tree
from evaluation.truth.report import PlayerErrors
from evaluation.truth.rows import rows_for
from games.knowledge import Row
from games.spec import Game
from protocol.settings import SelfPlaySettings, changed
from search.evaluation_settings import FOR_EVALUATION
from search.forest import Forest
from search.mcts import search as search_tree
from search.moves import choose_action
from search.pool import SearchPool
from search.settings import resolve
from search.tree import SearchTree

IN_FLIGHT_BATCHES = 3
"""Positions in flight, in batches of the network's best size: one is computed while the next collects."""


def play_settings(
    net: LoadedNet, simulations: int, search: SelfPlaySettings = FOR_EVALUATION
) -> SelfPlaySettings:
    """`search` (`engine.search_choice`) for `net`. Raises ValueError if `simulations` is out of range."""
    changes = {"search.simulations": max(1, simulations), "history": net.history}
    return resolve(changed(search, changes), net.game)


async def chosen_actions(
    net: LoadedNet, rows: Sequence[Row], simulations: int, search: SelfPlaySettings = FOR_EVALUATION
) -> list[int]:
    """The action played in every row; 0 simulations is the raw policy. Each row gets a fresh tree."""
    settings = play_settings(net, simulations, search)
    most = max(64, IN_FLIGHT_BATCHES * net.target_rows)
    forest = Forest(net.game, settings, min(most, len(rows)), network=net.own)
    pool = SearchPool(forest, net.evaluator)
    places = asyncio.Semaphore(most)

    async def one(row: Row) -> int:
        async with places:
            return await _choose(pool, row, raw=simulations == 0)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(row)) for row in rows]
    return [task.result() for task in tasks]


async def _choose(pool: SearchPool, row: Row, *, raw: bool) -> int:
    rng = np.random.default_rng(0)  # never used: no noise, no temperature
    with SearchTree(pool.forest, rng) as tree:
        tree.reset(tree.game.notation.state_from_text(row.start))
        for action in row.moves:
            tree.advance(action)
        if raw:
            await pool.expand(tree)
            view = tree.view_of_net()
            return int(view.actions[np.argmax(view.priors)])
        return choose_action(await search_tree(tree, pool), tree.ply, tree.settings, rng)


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
    """Whole games against all replies, in a game of few positions where `rows` contains all of them."""
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
