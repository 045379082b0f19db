"""Players without a network: random, greedy, alpha-beta, rollouts, and blends of a player with random moves.

Their kernels are compiled for a game on first use and cached on disk. The slower ones run in a thread pool
with one thread per core, because jitted code releases the interpreter lock.
"""
# ruff: noqa: ARG002

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from types import SimpleNamespace
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from evaluation.match import alphabeta_kernel, greedy_kernel, rollout_kernel, stubs
from evaluation.match.alphabeta_kernel import FRAME, INFINITE, QUIESCENCE, WIN, Stack
from evaluation.match.player import Choice, Clock, Player, Seat
from evaluation.match.rollout_kernel import Tree
from games import get_game
from games.game_history import GameHistory
from games.jit import bind
from games.knowledge import knowledge_of
from games.spec import Game, Positions
from games.stubs import bindings

T = TypeVar("T")

Think = Callable[[GameHistory, np.random.Generator], Choice]

VALUE_SCALE = 400.0
"""Heuristic units at which a player's value is tanh(1) = 0.76; for adjudication only."""


@cache
def kernels_for(game_name: str) -> SimpleNamespace:
    """`best_root`, `greedy_scores`, `run_rollouts` and all that they call, for one game."""
    game = get_game(game_name)
    heuristic = knowledge_of(game).heuristic
    kernels = (alphabeta_kernel, greedy_kernel, rollout_kernel)
    found = bind(kernels, {game.name: bindings(game), "heuristic": stubs.bindings(heuristic)})
    return SimpleNamespace(**vars(found), evaluate=heuristic.evaluate, material=heuristic.material)


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=os.cpu_count() or 1, thread_name_prefix="player")


async def in_thread(work: Callable[[], T]) -> T:
    """Run CPU-bound jitted work beside the event loop."""
    return await asyncio.get_running_loop().run_in_executor(_threads(), work)


class ThinkingPlayer:
    """A player whose every move is one call of `think(game_history, rng)`.

    `threaded`: in a thread of the pool. `alone`: one call at a time, for a `think` with a memory.
    """

    def __init__(self, name: str, think: Think, *, threaded: bool = True, alone: bool = False) -> None:
        self.name = name
        self._think = think
        self._threaded = threaded
        self._turn: contextlib.AbstractAsyncContextManager[None] = (
            asyncio.Lock() if alone else contextlib.nullcontext()
        )

    async def sit_down(self, seed: int) -> Seat:
        return ThinkingSeat(self, np.random.default_rng(seed))

    async def think(self, game_history: GameHistory, rng: np.random.Generator) -> Choice:
        """The move to play; `rng` breaks ties."""
        if not self._threaded:
            return self._think(game_history, rng)
        async with self._turn:
            return await in_thread(lambda: self._think(game_history, rng))

    async def close(self) -> None:
        """Do nothing: the threads belong to the process."""


class ThinkingSeat:
    """One game of a ThinkingPlayer."""

    def __init__(self, player: ThinkingPlayer, rng: np.random.Generator) -> None:
        self._player = player
        self._rng = rng

    async def be_ready(self, game_history: GameHistory, clock: Clock | None = None) -> None:
        """Do nothing: its kernels are compiled with its first move."""

    async def choose(self, game_history: GameHistory, clock: Clock | None = None) -> Choice:
        return await self._player.think(game_history, self._rng)

    async def close(self) -> None:
        """Nothing to close."""


class Blend:
    """Plays like `inner` with probability `share`, else any legal move.

    Blends are intermediate steps for ratings: in chess `greedy` beats `random` in 99 of 100 games, which says
    little about how far apart they are.
    """

    def __init__(self, name: str, inner: Player, share: float) -> None:
        self.name = name
        self.inner = inner
        self.share = share

    async def sit_down(self, seed: int) -> Seat:
        return BlendSeat(await self.inner.sit_down(seed), self.share, np.random.default_rng([seed, 1]))

    async def close(self) -> None:
        await self.inner.close()


class BlendSeat:
    """One game of a Blend."""

    def __init__(self, inner: Seat, share: float, rng: np.random.Generator) -> None:
        self._inner = inner
        self._share = share
        self._rng = rng

    async def be_ready(self, game_history: GameHistory, clock: Clock | None = None) -> None:
        await self._inner.be_ready(game_history, clock)

    async def choose(self, game_history: GameHistory, clock: Clock | None = None) -> Choice:
        if self._rng.random() < self._share:
            return await self._inner.choose(game_history, clock)
        return random_think(game_history, self._rng)

    async def close(self) -> None:
        await self._inner.close()


def random_think(game_history: GameHistory, rng: np.random.Generator) -> Choice:
    """Any legal action."""
    return Choice(int(rng.choice(game_history.legal_actions())))


def _with_room(game_history: GameHistory, plies: int) -> Positions:
    """A copy of the game's positions with room for `plies` more: uint64[ply + 1 + plies, state_words]."""
    buffer = np.zeros((game_history.ply + 1 + plies, game_history.game.state_words), np.uint64)
    buffer[: game_history.ply + 1] = game_history.states
    return buffer


def greedy_think(game: Game) -> Think:
    """Best after one ply; ties are broken at random (see `evaluation.match.greedy_kernel`)."""
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
    """(best action, its value in the heuristic's units, positions seen).

    `root` uint16[n]: the actions to choose from; ties go to the lowest index.
    """
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
    """Best by a search `depth` plies deep plus quiescence; ties are broken at random."""
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
