"""What a network plays in many positions at once, with or without search."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import numpy as np

from play.nets import LoadedNet
from play.truth.rows import Row
from protocol.settings import SelfPlaySettings
from search.evaluator import Evaluator
from search.mcts import search
from search.moves import choose_action
from search.settings import resolve
from search.tree import SearchTree

IN_FLIGHT_BATCHES = 3
"""Positions in flight for each of the network's best batch: one is computed while the next gathers."""


def play_settings(net: LoadedNet, simulations: int) -> SelfPlaySettings:
    """Search as in play: no noise, the most visited move. ValueError if `simulations` is out of range."""
    wanted = SelfPlaySettings(
        simulations=max(1, simulations), root_noise=0.0, temperature_plies=0, history=net.history
    )
    return resolve(wanted, net.game)


async def chosen_actions(net: LoadedNet, rows: Sequence[Row], simulations: int) -> list[int]:
    """The action played in every row; 0 simulations is the raw policy. Each row gets a fresh tree."""
    settings = play_settings(net, simulations)
    places = asyncio.Semaphore(max(64, IN_FLIGHT_BATCHES * net.target_rows))

    async def one(row: Row) -> int:
        async with places:
            return await _choose(net, row, settings, raw=simulations == 0)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(row)) for row in rows]
    return [task.result() for task in tasks]


async def _choose(net: LoadedNet, row: Row, settings: SelfPlaySettings, *, raw: bool) -> int:
    rng = np.random.default_rng(0)  # nothing is drawn from it: no noise, no temperature
    tree = SearchTree(net.game, settings, rng)
    tree.reset(net.game.notation.state_from_text(row.start))
    for action in row.moves:
        tree.advance(action)
    evaluator: Evaluator = net.evaluator
    if raw:
        leaf = tree.root_leaf()
        priors, _ = await evaluator.evaluate(leaf)
        return int(leaf.actions[np.argmax(priors)])
    return choose_action(await search(tree, evaluator), tree.ply, settings, rng)
