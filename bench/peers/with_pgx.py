"""pgx and mctx in turns: all games of a batch make a move together, in compiled code (JAX, float32)."""

from __future__ import annotations

import time
from typing import Any

import jax
import pgx

from bench.peers.answering import Counts, Options, answer, options, versions
from bench.peers.jax_network import network
from bench.peers.pgx_search import free, played, searcher

BATCHES = {"connect_four": 256, "chess": 64}
"""Default number of concurrent games. The example has 1,024, on GPUs."""


class SelfPlay:
    """Games that continue from turn to turn."""

    def __init__(self, chosen: Options) -> None:
        self._game = pgx.make(chosen.game)
        self.batch = chosen.batch or BATCHES[chosen.game]
        self._simulations = chosen.simulations
        self._key = jax.random.PRNGKey(0)
        self._state = jax.jit(jax.vmap(self._game.init))(jax.random.split(self._key, self.batch))
        self._model: Any = ()
        evaluate = free
        if chosen.net:
            net = network(self._game.num_actions, chosen.tower)
            self._model = net.init(self._key, self._state.observation, True)
            evaluate = lambda model, state: net.apply(*model, state.observation)[0]  # noqa: E731
        search = searcher(self._game, evaluate, chosen.simulations)

        def move(model: Any, state: Any, key: Any) -> Any:
            first, second = jax.random.split(key)
            return played(self._game, state, search(model, state, first).action, second)

        self._move = jax.jit(move)
        self.measure(0.0)  # compiled

    def measure(self, seconds: float) -> Counts:
        """Play whole moves of all games, for `seconds` or a little more."""
        began, moves = time.perf_counter(), 0
        while moves == 0 or time.perf_counter() < began + seconds:
            self._key, key = jax.random.split(self._key)
            self._state = jax.block_until_ready(self._move(self._model, self._state, key))
            moves += self.batch
        took = time.perf_counter() - began
        return Counts(took, moves * self._simulations, moves * (self._simulations + 1))


def main() -> None:
    chosen = options()
    if chosen.cache:
        jax.config.update("jax_compilation_cache_dir", chosen.cache)
    side = SelfPlay(chosen)
    about = {"versions": versions("pgx", "mctx", "jax"), "settings": f"{side.batch} games side by side"}
    answer(about, side.measure)


if __name__ == "__main__":
    main()
