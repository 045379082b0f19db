"""Compiles a game's rules and search into the disk cache. `client.run` is the command line."""

from __future__ import annotations

import asyncio
import time

import numpy as np

from games import get_game
from protocol.settings import SearchSettings, SelfPlaySettings
from search.compile_times import Compiled
from search.compiled import OwnNetwork
from search.evaluator import UniformEvaluator
from search.forest import Forest
from search.mcts import search
from search.pool import SearchPool
from search.settings import resolve
from search.tree import SearchTree


def warm(game_name: str, root: str = "puct", network: OwnNetwork | None = None) -> float:
    """Play two moves of a tiny search with that `search.selection` of SelfPlaySettings. Returns the seconds
    it took. `network`: one that evaluates leaves in the search's own step, with any weights.

    Do it once before several workers start, so that they load the code instead of all compiling it.
    """
    began = time.perf_counter()
    game = get_game(game_name)
    compiled = Compiled(game, root, network="" if network is None else network.code.name)
    settings = resolve(SelfPlaySettings(search=SearchSettings(selection=root, simulations=4)), game)
    tree = SearchTree(Forest(game, settings, network=network), np.random.default_rng(0))
    tree.reset(game.notation.state_from_text(""))

    async def two_moves() -> None:
        pool = SearchPool(tree.forest, UniformEvaluator() if network is None else network)
        for _ in range(2):
            result = await search(tree, pool)
            tree.advance(int(result.actions[0]))
            tree.end_reason()

    asyncio.run(two_moves())
    seconds = time.perf_counter() - began
    compiled.took(seconds)
    return seconds
