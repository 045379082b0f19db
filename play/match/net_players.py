"""Players with a network. All games of the process share one batching evaluator per weights file."""
# ruff: noqa: ARG002

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from play.lines import GameLine
from play.nets import LoadedNet
from play.player import Choice, Clock, Seat
from protocol.settings import SelfPlaySettings
from search.mcts import search
from search.settings import resolve
from search.tree import SearchTree


class NetPlayer:
    """Searches with `simulations` a move (0: plays the policy's first choice, no search).

    No root noise, the most visited move, the tree kept from move to move.
    """

    def __init__(
        self, name: str, net: LoadedNet, simulations: int, release: Callable[[], None] = lambda: None
    ) -> None:
        self.name = name
        self.net = net
        self.simulations = simulations
        self._release = release

    def settings(self, max_plies: int) -> SelfPlaySettings:
        """How it searches in games of at most `max_plies`."""
        settings = SelfPlaySettings(
            simulations=max(1, self.simulations),
            root_noise=0.0,
            temperature=0.0,
            temperature_plies=0,
            history=self.net.history,
            max_plies=max_plies,
            reuse_tree=True,
        )
        return resolve(settings, self.net.game)

    async def sit_down(self, seed: int) -> Seat:
        return NetSeat(self)

    async def close(self) -> None:
        self._release()


class NetSeat:
    """One game: a tree that follows the line."""

    def __init__(self, player: NetPlayer) -> None:
        self._player = player
        self._line: GameLine | None = None
        self._tree: SearchTree | None = None
        self._followed: list[int] = []

    def _follow(self, line: GameLine) -> SearchTree:
        """Bring the tree to the line's position: forward if it can, else from the start."""
        tree = self._tree
        if tree is None or line is not self._line or line.actions[: len(self._followed)] != self._followed:
            settings = self._player.settings(line.max_plies)
            tree = SearchTree(self._player.net.game, settings, np.random.default_rng(0))
            tree.reset(line.states[0])
            self._tree, self._line, self._followed = tree, line, []
        for action in line.actions[len(self._followed) :]:
            tree.advance(action)
            self._followed.append(action)
        return tree

    async def choose(self, line: GameLine, clock: Clock | None = None) -> Choice:
        tree, evaluator = self._follow(line), self._player.net.evaluator
        if not self._player.simulations:
            leaf = tree.root_leaf()
            priors, value = await evaluator.evaluate(leaf)
            return Choice(int(leaf.actions[np.argmax(priors)]), float(value), 1)
        result = await search(tree, evaluator)
        best = int(result.actions[np.argmax(result.visits)])
        return Choice(best, result.value, self._player.simulations)

    async def close(self) -> None:
        """The evaluator belongs to the player."""
