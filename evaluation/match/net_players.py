"""Players with a network. All games of the process share one batching evaluator per weights file."""
# ruff: noqa: ARG002

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from engine.nets import LoadedNet
from evaluation.match.player import Choice, Clock, Seat
from games.game_history import GameHistory
from protocol.settings import SelfPlaySettings, changed
from search.evaluator import LeafBatch, evaluate
from search.mcts import search
from search.moves import choose_action
from search.pool import SearchPool
from search.settings import FOR_EVALUATION, resolve
from search.tree import SearchTree, tree_for


class NetPlayer:
    """Searches with `simulations` per move (0: plays the policy's first choice, without a search).

    It plays without noise and without temperature: the most visited move, or with a Gumbel root the winner of
    sequential halving. The tree is kept from move to move unless the search says otherwise (a Gumbel root
    keeps none).
    """

    def __init__(
        self,
        name: str,
        net: LoadedNet,
        simulations: int,
        release: Callable[[], None] = lambda: None,
        search: SelfPlaySettings | None = None,
    ) -> None:
        """`search`: see `engine.search_choice.search_for`; the default is PUCT."""
        self.name = name
        self.net = net
        self.simulations = simulations
        self._release = release
        self._search = search or FOR_EVALUATION

    def settings(self, max_plies: int) -> SelfPlaySettings:
        """Settings of the search in games of at most `max_plies`."""
        changes = {
            "search.simulations": max(1, self.simulations),
            "history": self.net.history,
            "max_plies": max_plies,
        }
        return resolve(changed(self._search, changes), self.net.game)

    async def sit_down(self, seed: int) -> Seat:
        return NetSeat(self)

    async def close(self) -> None:
        self._release()


class NetSeat:
    """One game: a tree that follows the moves."""

    def __init__(self, player: NetPlayer) -> None:
        self._player = player
        self._game_history: GameHistory | None = None
        self._tree: SearchTree | None = None
        self._followed: list[int] = []
        self._rng = np.random.default_rng(0)  # never used: no noise, no temperature

    def _follow(self, game_history: GameHistory) -> SearchTree:
        """Set the tree to the game's position: by advancing if possible, else from the start."""
        tree = self._tree
        if (
            tree is None
            or game_history is not self._game_history
            or game_history.actions[: len(self._followed)] != self._followed
        ):
            settings = self._player.settings(game_history.max_plies)
            net = self._player.net
            tree = tree_for(net.game, settings, self._rng, net.own)
            tree.reset(game_history.states[0])
            self._tree, self._game_history, self._followed = tree, game_history, []
        for action in game_history.actions[len(self._followed) :]:
            tree.advance(action)
            self._followed.append(action)
        return tree

    async def be_ready(self, game_history: GameHistory, clock: Clock | None = None) -> None:
        """Make the tree."""
        self._follow(game_history)

    async def choose(self, game_history: GameHistory, clock: Clock | None = None) -> Choice:
        tree, net = self._follow(game_history), self._player.net
        evaluator = net.evaluator
        if not self._player.simulations:
            leaf = tree.root_leaf()
            answer = await evaluate(evaluator, LeafBatch.of(leaf))
            return Choice(int(leaf.actions[np.argmax(answer.priors)]), float(answer.values[0]), 1)
        before = tree.forest.evaluated
        result = await search(tree, SearchPool(tree.forest, evaluator))
        net.evaluator.rows += tree.forest.evaluated - before
        best = choose_action(result, tree.ply, tree.settings, self._rng)
        return Choice(best, result.value, self._player.simulations)

    async def close(self) -> None:
        """Do nothing: the evaluator belongs to the player."""
