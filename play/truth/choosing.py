"""What a network plays in many positions at once, with or without search."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from games.knowledge import Row
from play.nets import LoadedNet
from protocol.settings import SelfPlaySettings
from search.evaluator import Evaluator
from search.mcts import search as search_tree
from search.moves import choose_action
from search.settings import resolve
from search.trees import tree_for
from search.without_chance import WITHOUT_CHANCE

IN_FLIGHT_BATCHES = 3
"""Positions in flight for each of the network's best batch: one is computed while the next gathers."""


def play_settings(
    net: LoadedNet, simulations: int, search: SelfPlaySettings = WITHOUT_CHANCE
) -> SelfPlaySettings:
    """Search as in play (`play.search_choice`). ValueError if `simulations` is out of range."""
    return resolve(replace(search, simulations=max(1, simulations), history=net.history), net.game)


async def chosen_actions(
    net: LoadedNet, rows: Sequence[Row], simulations: int, search: SelfPlaySettings = WITHOUT_CHANCE
) -> list[int]:
    """The action played in every row; 0 simulations is the raw policy. Each row gets a fresh tree."""
    settings = play_settings(net, simulations, search)
    places = asyncio.Semaphore(max(64, IN_FLIGHT_BATCHES * net.target_rows))

    async def one(row: Row) -> int:
        async with places:
            return await _choose(net, row, settings, raw=simulations == 0)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(row)) for row in rows]
    return [task.result() for task in tasks]


async def _choose(net: LoadedNet, row: Row, settings: SelfPlaySettings, *, raw: bool) -> int:
    rng = np.random.default_rng(0)  # nothing is drawn from it: no noise, no temperature
    tree = tree_for(net.game, settings, rng)
    tree.reset(net.game.notation.state_from_text(row.start))
    for action in row.moves:
        tree.advance(action)
    evaluator: Evaluator = net.evaluator
    if raw:
        leaf = tree.root_leaf()
        priors, _ = await evaluator.evaluate(leaf)
        return int(leaf.actions[np.argmax(priors)])
    return choose_action(await search_tree(tree, evaluator), tree.ply, settings, rng)
