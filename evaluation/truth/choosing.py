"""What a network plays in many positions at once, with or without search."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import numpy as np

from engine.nets import LoadedNet
from games.knowledge import Row
from protocol.settings import SelfPlaySettings, changed
from search.evaluation_settings import FOR_EVALUATION
from search.forest import Forest
from search.mcts import search as search_tree
from search.moves import choose_action
from search.pool import SearchPool
from search.settings import resolve
from search.tree import SearchTree

IN_FLIGHT_BATCHES = 3
"""Positions in flight for each of the network's best batch: one is computed while the next gathers."""


def play_settings(
    net: LoadedNet, simulations: int, search: SelfPlaySettings = FOR_EVALUATION
) -> SelfPlaySettings:
    """Search as in play (`engine.search_choice`). ValueError if `simulations` is out of range."""
    changes = {"search.simulations": max(1, simulations), "history": net.history}
    return resolve(changed(search, changes), net.game)


async def chosen_actions(
    net: LoadedNet, rows: Sequence[Row], simulations: int, search: SelfPlaySettings = FOR_EVALUATION
) -> list[int]:
    """The action played in every row; 0 simulations is the raw policy. Each row gets a fresh tree."""
    settings = play_settings(net, simulations, search)
    most = max(64, IN_FLIGHT_BATCHES * net.target_rows)
    pool = SearchPool(Forest(net.game, settings, min(most, len(rows))), net.evaluator)
    places = asyncio.Semaphore(most)

    async def one(row: Row) -> int:
        async with places:
            return await _choose(pool, row, raw=simulations == 0)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(row)) for row in rows]
    return [task.result() for task in tasks]


async def _choose(pool: SearchPool, row: Row, *, raw: bool) -> int:
    rng = np.random.default_rng(0)  # nothing is drawn from it: no noise, no temperature
    with SearchTree(pool.forest, rng) as tree:
        tree.reset(tree.game.notation.state_from_text(row.start))
        for action in row.moves:
            tree.advance(action)
        if raw:
            await pool.expand(tree)
            view = tree.view_of_net()
            return int(view.actions[np.argmax(view.priors)])
        return choose_action(await search_tree(tree, pool), tree.ply, tree.settings, rng)
