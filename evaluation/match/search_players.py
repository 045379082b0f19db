"""Players that think in jitted code: random, greedy, alpha-beta, rollouts, exhaustive search.

The longer ones run in one pool of threads, one per core: jitted code lets go of the interpreter lock.
"""
# ruff: noqa: ARG002

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from evaluation.match.alphabeta_kernel import FRAME, INFINITE, QUIESCENCE, WIN, Stack
from evaluation.match.compiled import kernels_for
from evaluation.match.player import Choice, Clock, Seat
from evaluation.match.rollout_kernel import Tree
from games.game_history import GameHistory
from games.spec import Game, Positions

T = TypeVar("T")

Think = Callable[[GameHistory, np.random.Generator], Choice]

VALUE_SCALE = 400.0
"""Heuristic units at which a player calls itself tanh(1) = 0.76 ahead; for adjudication only."""


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=os.cpu_count() or 1, thread_name_prefix="player")


async def in_thread(work: Callable[[], T]) -> T:
    """Run CPU-bound jitted work beside the event loop."""
    return await asyncio.get_running_loop().run_in_executor(_threads(), work)


class ThinkingPlayer:
    """A player whose every move is one call of `think(line, rng)`."""

    def __init__(self, name: str, think: Think, *, threaded: bool = True) -> None:
        self.name = name
        self._think = think
        self._threaded = threaded

    async def sit_down(self, seed: int) -> Seat:
        return ThinkingSeat(self._think, np.random.default_rng(seed), self._threaded)

    async def close(self) -> None:
        """Nothing to give back: the threads are the process's."""


class ThinkingSeat:
    """One game of a ThinkingPlayer."""

    def __init__(self, think: Think, rng: np.random.Generator, threaded: bool) -> None:
        self._think = think
        self._rng = rng
        self._threaded = threaded

    async def choose(self, game_history: GameHistory, clock: Clock | None = None) -> Choice:
        if not self._threaded:
            return self._think(game_history, self._rng)
        return await in_thread(lambda: self._think(game_history, self._rng))

    async def close(self) -> None:
        """Nothing to give back."""


def random_think(game_history: GameHistory, rng: np.random.Generator) -> Choice:
    """A legal action by lot."""
    return Choice(int(rng.choice(game_history.legal_actions())))


def _with_room(game_history: GameHistory, plies: int) -> Positions:
    """The line's positions with room for `plies` more, a copy."""
    buffer = np.zeros((game_history.ply + 1 + plies, game_history.game.state_words), np.uint64)
    buffer[: game_history.ply + 1] = game_history.states
    return buffer


def greedy_think(game: Game) -> Think:
    """Best after one ply, equals by lot (see `evaluation.match.greedy_kernel`)."""
    kernels = kernels_for(game.name)

    def think(game_history: GameHistory, rng: np.random.Generator) -> Choice:
        actions, replies, spare = (np.zeros(game.max_legal, np.uint16) for _ in range(3))
        scores = np.zeros(game.max_legal, np.int64)
        count = kernels.greedy_scores(
            _with_room(game_history, 2), game_history.ply + 1, actions, replies, spare, scores
        )
        best = np.flatnonzero(scores[:count] == scores[:count].max())
        return Choice(int(actions[rng.choice(best)]), simulations=int(count))

    return think


def alphabeta(
    game: Game, game_history: GameHistory, depth: int, root: npt.NDArray[np.uint16]
) -> tuple[int, int, int]:
    """(best action of `root`, the first of equals; its value in the heuristic's units; positions seen)."""
    kernels = kernels_for(game.name)
    depth = min(depth, game_history.max_plies - game_history.ply)
    rows = depth + QUIESCENCE + 2
    stack = Stack(
        actions=np.zeros((rows, game.max_legal), np.uint16),
        scores=np.zeros(game.max_legal, np.int64),
        frames=np.zeros((rows, FRAME), np.int64),
        seen=np.zeros(1, np.int64),
    )
    buffer = _with_room(game_history, rows)
    chosen, value = kernels.best_root(
        buffer, game_history.ply + 1, depth, game_history.max_plies, root, stack
    )
    return int(root[chosen]), int(value), int(stack.seen[0])


def alphabeta_think(game: Game, depth: int) -> Think:
    """Best by a search `depth` plies deep plus quiescence; equals by lot."""
    kernels_for(game.name)

    def think(game_history: GameHistory, rng: np.random.Generator) -> Choice:
        action, value, seen = alphabeta(
            game, game_history, depth, rng.permutation(game_history.legal_actions())
        )
        return Choice(action, squashed(value), seen)

    return think


def squashed(value: int) -> float:
    """A heuristic value as a number in [-1, 1]; a forced end is exactly +1 or -1."""
    if abs(value) >= WIN - 10_000:
        return 1.0 if value > 0 else -1.0
    return float(np.tanh(max(-INFINITE, value) / VALUE_SCALE))


def rollout_think(game: Game, simulations: int) -> Think:
    """Most visited by UCT with random playouts; a new tree for every move."""
    kernels = kernels_for(game.name)

    def think(game_history: GameHistory, rng: np.random.Generator) -> Choice:
        room = max(1, game_history.max_plies - game_history.ply) + 1
        tree = Tree(
            nodes=np.empty((simulations + 1, 3), np.int32),
            edges=np.empty(((simulations + 1) * game.max_legal, 4), np.int32),
            used=np.zeros(2, np.int64),
            path=np.empty(room, np.int32),
        )
        seed = rng.integers(1, 2**63, size=1, dtype=np.uint64)
        action, value = kernels.run_rollouts(
            tree,
            _with_room(game_history, room),
            game_history.ply + 1,
            game_history.max_plies,
            np.zeros(game.max_legal, np.uint16),
            seed,
            simulations,
        )
        return Choice(int(action), float(value), simulations)

    return think
