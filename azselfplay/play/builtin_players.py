"""Players that need no other program: networks, solvers, endgame tables, blends with random moves.

`NetPlayer` searches with a network; its tree follows the game. A `ThinkingPlayer` is one function from the
game to a move. `play.kernel_players` and `play.rollouts` have functions that search without a network;
`solver` and `tablebase` here look up known results of a game (`games.knowledge`). Slow functions run in a
thread pool with one thread per core, because jitted code releases the interpreter lock.
"""
# ruff: noqa: ARG002

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

from azselfplay.games import get_game
from azselfplay.games.game_history import GameHistory
from azselfplay.games.knowledge import Solution, knowledge_of
from azselfplay.games.names import GAME_NAMES
from azselfplay.games.spec import Game
from azselfplay.host.exits import Exit, Fatal, leave_at_once
from azselfplay.play.kernel_players import Think, alphabeta_think, random_think
from azselfplay.play.nets import LoadedNet
from azselfplay.play.player import Player, PlayerFailed, Seat
from azselfplay.search.evaluator import evaluate
from azselfplay.search.forest import Forest
from azselfplay.search.mcts import choose_action, search
from azselfplay.search.pool import SearchPool
from azselfplay.search.settings import FOR_EVALUATION
from azselfplay.search.tree import SearchTree
from azselfplay.search.warm import warm
from protocol.settings import SelfPlaySettings

THREADS = ThreadPoolExecutor(max_workers=os.cpu_count() or 1, thread_name_prefix="player")
"""Thread pool in which slow players think, for all games together. A thread starts only when it is needed."""

CALLS: set[Future[int]] = set()
"""Calls in the pool that have not ended. Nothing ends a call early, even if its game is given up."""


def leave_if_thinking(code: int) -> None:
    """End the process with `code` if a player still thinks: the interpreter would wait for the thread. Call
    this when everything else has ended."""
    if CALLS:
        leave_at_once(code)


class NetPlayer(Player):
    """Searches with `simulations` per move (0: plays the policy's first choice, without a search).

    It plays without noise and without temperature: the move of `final_move`, or the winner of sequential
    halving with a Gumbel root. The tree is kept from move to move unless the search says otherwise (a search
    with a Gumbel root does not keep it).
    """

    def __init__(
        self,
        name: str,
        net: LoadedNet,
        simulations: int,
        release: Callable[[], None] = lambda: None,
        settings: SelfPlaySettings | None = None,
    ) -> None:
        """`settings`: see `play.nets.settings_for_search`; the default is PUCT."""
        self.name = name
        self.net = net
        self.simulations = simulations
        self._release = release
        self.settings = settings or FOR_EVALUATION

    async def prepare(self) -> None:
        """Compile or load the search, which would otherwise take seconds of the first move."""
        if self.simulations:
            await asyncio.to_thread(warm, self.net.game.name, self.settings.search.selection, self.net.own)

    async def sit_down(self, seed: int) -> Seat:
        return NetSeat(self)

    async def close(self) -> None:
        self._release()


class NetSeat(Seat):
    """One game: a tree that follows the moves."""

    def __init__(self, player: NetPlayer) -> None:
        self._player = player
        self._game_history: GameHistory | None = None
        self._tree: SearchTree | None = None
        self._followed: list[int] = []
        self._rng = np.random.default_rng(0)  # never used: no noise, no temperature

    def _follow(self, game_history: GameHistory) -> SearchTree:
        """Set the tree to the game's position: advance it if possible, otherwise start from the beginning of
        the game."""
        tree = self._tree
        # A tree can only go forward, so another game, or a taken-back move, needs a new one.
        if (
            tree is None
            or game_history is not self._game_history
            or game_history.actions[: len(self._followed)] != self._followed
        ):
            net = self._player.net
            settings = net.resolved(self._player.settings, self._player.simulations, game_history.max_plies)
            tree = SearchTree(Forest(net.game, settings, network=net.own), self._rng)
            # Begin at the start of the game, because repetitions are counted over the whole game.
            tree.reset(game_history.states[0])
            self._tree, self._game_history, self._followed = tree, game_history, []
        for action in game_history.actions[len(self._followed) :]:
            tree.advance(action)
            self._followed.append(action)
        return tree

    async def be_ready(self, game_history: GameHistory) -> None:
        """Make the tree."""
        self._follow(game_history)

    async def choose(self, game_history: GameHistory) -> int:
        tree, net = self._follow(game_history), self._player.net
        evaluator = net.evaluator
        if not self._player.simulations:
            # No search: the network's own first choice.
            leaf = tree.root_leaf()
            answer = await evaluate(evaluator, leaf)
            return int(leaf.actions[np.argmax(answer.priors)])
        # A sparse network runs inside the search, without the evaluator, so its positions are counted here.
        before = tree.forest.evaluated
        result = await search(tree, SearchPool(tree.forest, evaluator))
        net.evaluator.rows += tree.forest.evaluated - before
        return choose_action(result, tree.ply, tree.settings, self._rng)


class ThinkingPlayer(Player):
    """A player whose every move is one call of `think(game_history, rng)`, in a thread of the pool if it is
    `threaded`."""

    def __init__(self, name: str, think: Think, *, threaded: bool = True) -> None:
        self.name = name
        self._think = think
        self._threaded = threaded

    async def sit_down(self, seed: int) -> Seat:
        return ThinkingSeat(self._think, self._threaded, np.random.default_rng(seed))


class ThinkingSeat(Seat):
    """One game of a ThinkingPlayer; `rng` breaks ties."""

    def __init__(self, think: Think, threaded: bool, rng: np.random.Generator) -> None:
        self._think = think
        self._threaded = threaded
        self._rng = rng

    async def choose(self, game_history: GameHistory) -> int:
        # For a quick move, a thread costs more than it saves.
        if not self._threaded:
            return self._think(game_history, self._rng)
        call = THREADS.submit(self._think, game_history, self._rng)
        CALLS.add(call)
        call.add_done_callback(CALLS.discard)
        return await asyncio.wrap_future(call)


class Blend(Player):
    """Plays like `inner` with probability `share`, else any legal move.

    Blends are intermediate steps for ratings: in chess `greedy` beats `random` in 99 of 100 games, and such a
    score hardly measures the distance between them.
    """

    def __init__(self, name: str, inner: Player, share: float) -> None:
        self.name = name
        self.inner = inner
        self.share = share

    async def prepare(self) -> None:
        await self.inner.prepare()

    async def sit_down(self, seed: int) -> Seat:
        # The inner player draws from `seed`; the blend needs another seed, or both would draw the same
        # numbers.
        return BlendSeat(await self.inner.sit_down(seed), self.share, np.random.default_rng([seed, 1]))

    async def close(self) -> None:
        await self.inner.close()


class BlendSeat(Seat):
    """One game of a Blend."""

    def __init__(self, inner: Seat, share: float, rng: np.random.Generator) -> None:
        self._inner = inner
        self._share = share
        self._rng = rng

    async def be_ready(self, game_history: GameHistory) -> None:
        await self._inner.be_ready(game_history)

    async def choose(self, game_history: GameHistory) -> int:
        if self._rng.random() < self._share:
            return await self._inner.choose(game_history)
        return random_think(game_history, self._rng)

    async def close(self) -> None:
        await self._inner.close()


def solver_think(game: Game) -> Think:
    """Return a player that picks a random action among those that keep the result of perfect play, or makes a
    shallow search where the result is unknown.

    The player fails in an unknown position if the game's solution has no search depth. Raises Fatal(CONFIG)
    for a game of which too little is solved.
    """
    solution = knowledge_of(game).solution
    if solution is None or not solution.plays_whole_games:
        have = ", ".join(name for name, one in solved_games().items() if one.plays_whole_games)
        raise Fatal(f"there is no solver for {game.name}; there is one for {have}", Exit.CONFIG)
    # Made only once, because this compiles the game's kernels.
    before = alphabeta_think(game, solution.depth) if solution.depth else None

    def think(game_history: GameHistory, rng: np.random.Generator) -> int:
        known = solution.probe(game_history.state)
        if known is not None:
            # Sorted, because the order of a set may differ between processes, but the seed alone should
            # decide.
            return int(rng.choice(sorted(known.keeps)))
        if before is None:
            raise PlayerFailed(f"{game.notation.state_to_text(game_history.state)} is not solved")
        return before(game_history, rng)

    return think


def tablebase_think(game: Game) -> Think:
    """Return a player that wins as fast, or loses as slowly, as possible. The player fails in a position
    without a table.

    Raises Fatal(CONFIG) for a game without tables that count the plies to the end.
    """
    table = knowledge_of(game).solution
    if table is None or not table.counts_plies:
        have = ", ".join(name for name, one in solved_games().items() if one.counts_plies)
        raise Fatal(f"tablebase: there are no tables for {game.name}; there are some for {have}", Exit.CONFIG)

    def think(game_history: GameHistory, rng: np.random.Generator) -> int:
        known = table.probe(game_history.state)
        if known is None:
            position = game.notation.state_to_text(game_history.state)
            raise PlayerFailed(f"no endgame table for {position}; there are {table.covers}")
        return int(rng.choice(sorted(known.best)))

    return think


def solved_games() -> dict[str, Solution]:
    """Return the solutions of all games with solved positions, by the game's name."""
    found = {name: knowledge_of(get_game(name)).solution for name in GAME_NAMES}
    return {name: solution for name, solution in found.items() if solution is not None}
