"""Our self-play in turns, in one process: a worker's games, searches and network, without server and disk."""

from __future__ import annotations

import asyncio
import time
from unittest import mock

import uvloop

from azselfplay.games import get_game
from azselfplay.games.spec import Game
from azselfplay.play.nets import LoadedNet, load_net
from azselfplay.search.evaluator import LocalEvaluator, UniformEvaluator
from azselfplay.search.forest import Forest, cached_in
from azselfplay.search.pool import SearchPool
from azselfplay.search.settings import resolve
from azselfplay.search.tree import SearchTree
from bench.peers.answering import Counts, Options, answer, give_up, options, play_for, versions
from client.options import WorkerOptions
from client.self_play import GamePool, Player
from protocol.records import GameRecord
from protocol.settings import SearchSettings, SelfPlaySettings

CACHE_MIB = WorkerOptions.cache_mib
"""MiB of cached evaluations, as in a worker."""
FREE_GAMES = 256
FEWEST_GAMES = 64
FLOAT32 = "float32"
WARM_MOVES, WARM_SECONDS = 10, 8.0
"""Moves of each game before the measurement, and the longest time in seconds for them."""


class CountedPool(SearchPool):
    """Counts the simulations made so far."""

    def __init__(self, forest: Forest, evaluator: LocalEvaluator | UniformEvaluator) -> None:
        super().__init__(forest, evaluator)
        self._done = 0
        self._wanted: dict[int, int] = {}
        """Simulations of the search running in each slot."""

    async def run(self, tree: SearchTree) -> None:
        wanted = self._wanted[tree.slot] = self._remaining(tree.slot)
        await super().run(tree)
        self._done += wanted
        del self._wanted[tree.slot]

    def simulations(self) -> int:
        """Includes those of running searches."""
        return self._done + sum(wanted - self._remaining(slot) for slot, wanted in self._wanted.items())

    def _remaining(self, slot: int) -> int:
        return int(self.forest.arrays.states["remaining"][slot])


def network(game: Game, net: str, *, is_float32: bool) -> LoadedNet:
    """An untrained network in this process, on one thread."""
    import torch

    from net import engines
    from net.cpu.engine import faster_dtype

    dtype = torch.float32 if is_float32 else faster_dtype()
    with mock.patch.object(engines, "faster_dtype", return_value=dtype):
        return load_net(None, game.name, threads=1, preset=net)


class SelfPlay:
    """Games on an event loop that runs only during a turn; between turns everything is stopped."""

    def __init__(self, chosen: Options) -> None:
        game = get_game(chosen.game)
        search = SearchSettings(simulations=chosen.simulations)
        settings = resolve(SelfPlaySettings(search=search), game)
        self.games = chosen.batch or FREE_GAMES
        cache = 0
        evaluator: LocalEvaluator | UniformEvaluator = UniformEvaluator()
        if chosen.net:
            net = network(game, chosen.net, is_float32=chosen.variant == FLOAT32)
            self.games = chosen.batch or max(FEWEST_GAMES, 2 * net.target_rows)
            cache = cached_in(CACHE_MIB, game)
            evaluator = net.evaluator
        self._evaluator = evaluator
        self._pool = CountedPool(Forest(game, settings, self.games, cache=cache), evaluator)
        self._loop = uvloop.new_event_loop()
        self._playing = self._loop.create_task(self._play())
        # Compile, and play through the openings: all games begin alike, so most of their answers are cached.
        began, simulations = time.monotonic(), self._pool.forest.settings.search.simulations
        while self._pool.simulations() < WARM_MOVES * self.games * simulations:
            self.measure(0.5)
            if time.monotonic() > began + WARM_SECONDS:
                return

    async def _play(self) -> None:
        async def forget(record: GameRecord) -> None:
            """Drop the record: simulations are counted elsewhere, and nobody reads the games."""

        room = asyncio.Event()
        room.set()
        pool = GamePool(self._pool, Player(1), keep=forget, room=room, finishing=asyncio.Event())
        async with asyncio.TaskGroup() as group:
            pool.start(group, self.games)

    def measure(self, seconds: float) -> Counts:
        simulations, evaluations = self._pool.simulations(), self._evaluator.rows
        began = time.perf_counter()
        play_for(self._loop, [self._playing], seconds)
        took = time.perf_counter() - began
        return Counts(took, self._pool.simulations() - simulations, self._evaluator.rows - evaluations)

    def close(self) -> None:
        give_up(self._loop, [self._playing])


def main() -> None:
    chosen = options()
    side = SelfPlay(chosen)
    about = {"versions": versions("torch", "numba"), "settings": f"{side.games} games in flight"}
    answer(about, side.measure)
    side.close()


if __name__ == "__main__":
    main()
