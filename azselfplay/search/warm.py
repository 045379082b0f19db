"""Compiles a game's rules and search into the disk cache.

`warm` plays two moves with a tiny search. `client.warm` is the command line.
"""

from __future__ import annotations

import asyncio
import time

import numpy as np

from azselfplay.games import get_game
from azselfplay.search.compiled import OwnNetwork
from azselfplay.search.evaluator import UniformEvaluator
from azselfplay.search.forest import Forest
from azselfplay.search.mcts import search
from azselfplay.search.pool import SearchPool
from azselfplay.search.settings import resolve
from azselfplay.search.tree import SearchTree
from protocol.settings import SearchSettings, SelfPlaySettings

PREPARES = "preparing the search of %s (up to two minutes the first time, and after a change of the code)"
"""What people read who wait for `warm`, with the game's name."""


def warm(game_name: str, selection: str = "puct", network: OwnNetwork | None = None) -> float:
    """Play two moves with a tiny search with this `search.selection`. Returns the seconds that this
    took. `network`: one that evaluates leaves in the step kernel, with any weights.

    Call this once before several workers start, so that they load the code instead of each compiling it.
    """
    began = time.perf_counter()
    game = get_game(game_name)
    settings = resolve(SelfPlaySettings(search=SearchSettings(selection=selection, simulations=4)), game)
    tree = SearchTree(Forest(game, settings, network=network), np.random.default_rng(0))
    start = game.notation.state_from_text("")
    tree.reset(start)

    async def two_moves() -> None:
        pool = SearchPool(tree.forest, UniformEvaluator() if network is None else network)
        # The second move has a kept subtree, which runs further code.
        for _ in range(2):
            result = await search(tree, pool)
            tree.advance(int(result.actions[0]))
            if tree.end_reason() is not None:  # some games are over after one move
                tree.reset(start)

    asyncio.run(two_moves())
    return time.perf_counter() - began
