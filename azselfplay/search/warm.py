"""Compiles a game's rules and search into the disk cache.

`warm` plays two moves with a tiny search, and leaves a note beside the compiled code (`Compiled`). Like the
code, a note is valid only for exactly these sources. `client.warm` is the command line.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from azselfplay.games import get_game
from azselfplay.games.jit import CACHE, foreign_key_of
from azselfplay.games.spec import Game
from azselfplay.search.compiled import OwnNetwork
from azselfplay.search.evaluator import UniformEvaluator
from azselfplay.search.forest import Forest
from azselfplay.search.mcts import search
from azselfplay.search.pool import SearchPool
from azselfplay.search.settings import resolve
from azselfplay.search.tree import SearchTree
from protocol.settings import SearchSettings, SelfPlaySettings


def warm(game_name: str, selection: str = "puct", network: OwnNetwork | None = None) -> float:
    """Play two moves with a tiny search with this `search.selection`. Returns the seconds that this
    took. `network`: one that evaluates leaves in the step kernel, with any weights.

    Call this once before several workers start, so that they load the code instead of each compiling it.
    """
    began = time.perf_counter()
    game = get_game(game_name)
    compiled = Compiled(game, selection, network="" if network is None else network.code.name)
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
    compiled.note()
    return time.perf_counter() - began


@dataclass(frozen=True)
class Compiled:
    """The compiled code of one game with one selection (`search.selection`), and perhaps with a network that
    is part of the search."""

    game: Game
    selection: str
    cache: Path = CACHE
    """Folder of compiled code, with a subfolder for each state of the sources."""
    network: str = ""
    """Name of the network's code (`search.compiled.NetworkCode`); "" if leaves are evaluated elsewhere."""

    @property
    def is_ready(self) -> bool:
        """Whether the code is compiled, so that it only needs to be loaded."""
        return self._note.exists()

    def note(self) -> None:
        """Note that the code is compiled."""
        with contextlib.suppress(OSError):
            self._note.touch()

    def announcement(self) -> str:
        """Return a message for the people who wait."""
        if self.is_ready:
            return f"loading the compiled search of {self.game.name}"
        return (
            f"compiling search kernels for {self.game.name} (first time, or after a change of the code: "
            "up to two minutes)"
        )

    @property
    def _note(self) -> Path:
        # A game of another package has its own key; that of our sources is the folder's name.
        key = foreign_key_of(self.game.rules.end_reason) or "own"
        what = "-".join(part for part in (self.game.name, self.selection, self.network) if part)
        return self.cache / f"compiled-{what}.{key}"
