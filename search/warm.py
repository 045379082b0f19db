"""`python -m search.warm GAME[:SELECTION]`: compile a game's rules and search into the disk cache.

Run it once before several workers start, so that they load the code instead of all compiling it.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Sequence

import numpy as np

from games import get_game
from protocol.settings import SearchSettings, SelfPlaySettings
from search.compile_times import Compiled
from search.evaluator import UniformEvaluator
from search.mcts import search
from search.pool import SearchPool
from search.settings import resolve
from search.tree import tree_for

WRONG_NAME = 78
"""`CONFIG` of `runtime.exits`."""


def warm(game_name: str, root: str = "puct") -> float:
    """Play two moves of a tiny search with that `search.selection` of SelfPlaySettings. Returns the seconds
    it took."""
    began = time.perf_counter()
    game = get_game(game_name)
    compiled = Compiled(game, root)
    settings = SelfPlaySettings(search=SearchSettings(selection=root, simulations=4))
    tree = tree_for(game, resolve(settings, game), np.random.default_rng(0))
    tree.reset(game.notation.state_from_text(""))

    async def two_moves() -> None:
        pool = SearchPool(tree.forest, UniformEvaluator())
        for _ in range(2):
            result = await search(tree, pool)
            tree.advance(int(result.actions[0]))
            tree.end_reason()

    asyncio.run(two_moves())
    seconds = time.perf_counter() - began
    compiled.took(seconds)
    return seconds


def main(names: Sequence[str]) -> int:
    """Warm each GAME[:SELECTION]. Returns the exit status, 78 if there is no such game or selection."""
    for name in names:
        game, _, root = name.partition(":")
        try:
            seconds = warm(game, root or "puct")
        except ValueError as error:
            print(f"search.warm: error: {error}", file=sys.stderr)
            return WRONG_NAME
        print(f"{name}: rules and search ready in {seconds:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
