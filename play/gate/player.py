"""A network that plays as it does in self-play, but for noise and chance (the settings say so)."""
# ruff: noqa: ARG002

from __future__ import annotations

import numpy as np

from play.lines import GameLine
from play.nets import LoadedNet
from play.player import Choice, Clock, Seat
from protocol.settings import SelfPlaySettings
from search.mcts import search
from search.moves import choose_action
from search.tree import SearchTree
from search.trees import tree_for


class GatePlayer:
    """Searches with `settings`, resolved; `root` and the rest are those of the run."""

    def __init__(self, name: str, net: LoadedNet, settings: SelfPlaySettings) -> None:
        self.name = name
        self.net = net
        self.settings = settings

    async def sit_down(self, seed: int) -> Seat:
        return GateSeat(self, np.random.default_rng(seed))

    async def close(self) -> None:
        self.net.close()


class GateSeat:
    """One game: a tree that follows its line."""

    def __init__(self, player: GatePlayer, rng: np.random.Generator) -> None:
        self._net, self._settings, self._rng = player.net, player.settings, rng
        self._tree: SearchTree | None = None

    async def choose(self, line: GameLine, clock: Clock | None = None) -> Choice:
        if self._tree is None:
            self._tree = tree_for(self._net.game, self._settings, self._rng)
            self._tree.reset(line.states[0])
        tree = self._tree
        for action in line.actions[tree.ply :]:
            tree.advance(action)
        result = await search(tree, self._net.evaluator)
        action = choose_action(result, tree.ply, self._settings, self._rng)
        return Choice(action, result.value, self._settings.simulations)

    async def close(self) -> None:
        """The network belongs to the player."""
