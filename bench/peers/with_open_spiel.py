"""OpenSpiel's Python AlphaZero in turns: the work of one of its actors, one game and one position at a time.

It uses OpenSpiel's own MCTSBot, evaluator and model with the settings of its example; the loop over moves is
that of an actor (open_spiel/python/algorithms/alpha_zero/alpha_zero.py), which cannot be stopped in the
middle of a game.
"""

from __future__ import annotations

import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pyspiel
from open_spiel.python.algorithms import mcts

from bench.peers.answering import Counts, Options, answer, options, versions

UCT_C, NOISE, TEMPERATURE_DROP = 2.0, (0.25, 1.0), 10
"""The README's for Connect Four; noise (share, alpha) is the example's default."""
COMPILED = "compiled"


class Free(mcts.Evaluator):
    """Every legal action equally likely, every value 0."""

    def evaluate(self, state: Any) -> Any:  # noqa: ARG002
        return np.zeros(2)

    def prior(self, state: Any) -> list[tuple[int, float]]:
        legal = state.legal_actions()
        return [(action, 1.0 / len(legal)) for action in legal]


class Compiled:
    """OpenSpiel's model behind one function compiled by JAX, with answers as NumPy arrays.

    OpenSpiel itself calls the network operation by operation. A note in its code says that compiling was
    slower, because there it would be compiled again at each call.
    """

    def __init__(self, model: Any) -> None:
        state = model._state
        self._weights = {"params": state.params, "batch_stats": state.batch_stats}

        def predict(weights: Any, observation: Any, mask: Any) -> Any:
            logits, value = state.apply_fn(weights, observation, training=False, mutable=False)
            logits = jnp.where(mask, logits, jnp.finfo(jnp.float32).min)
            return value, jax.nn.softmax(logits)

        self._predict = jax.jit(predict)

    def inference(self, observation: Any, mask: Any) -> Any:
        value, policy = self._predict(self._weights, np.float32(observation), mask.astype(bool))
        return np.asarray(value), np.asarray(policy)


class SelfPlay:
    """One game after the other."""

    def __init__(self, chosen: Options) -> None:
        self._game = pyspiel.load_game(chosen.game)
        self._simulations = chosen.simulations
        self._misses = lambda: 0
        evaluator: Any = Free()
        if chosen.net:
            evaluator = self._of_network(chosen)
            self._misses = lambda: evaluator.cache_info().misses
        self._bot = mcts.MCTSBot(
            *(self._game, UCT_C, chosen.simulations, evaluator),
            solve=False,
            dirichlet_noise=NOISE,
            child_selection_fn=mcts.SearchNode.puct_value,
            dont_return_chance_node=True,
        )
        self._state = self._game.new_initial_state()
        self.measure(0.0)

    def _of_network(self, chosen: Options) -> Any:
        from open_spiel.python.algorithms.alpha_zero import evaluator as evaluators
        from open_spiel.python.algorithms.alpha_zero import model_linen

        blocks, channels = chosen.tower
        model = model_linen.Model.build_model(
            *("resnet", self._game.observation_tensor_shape(), self._game.num_distinct_actions()),
            *(channels, blocks, 1e-4, 1e-3, None),
        )
        used = Compiled(model) if chosen.variant == COMPILED else model
        return evaluators.AlphaZeroEvaluator(self._game, used)

    def measure(self, seconds: float) -> Counts:
        began, misses, moves = time.perf_counter(), self._misses(), 0
        while moves == 0 or time.perf_counter() < began + seconds:
            self._move()
            moves += 1
        simulations = moves * self._simulations
        return Counts(time.perf_counter() - began, simulations, self._misses() - misses)

    def _move(self) -> None:
        if self._state.is_terminal():
            self._state = self._game.new_initial_state()
        root = self._bot.mcts_search(self._state)
        visits = np.zeros(self._game.num_distinct_actions())
        for child in root.children:
            visits[child.action] = child.explore_count
        if self._state.move_number() >= TEMPERATURE_DROP:
            self._state.apply_action(root.best_child().action)
        else:
            self._state.apply_action(int(np.random.choice(len(visits), p=visits / visits.sum())))


def main() -> None:
    chosen = options()
    side = SelfPlay(chosen)
    about = {"versions": versions("open_spiel", "flax", "jax"), "settings": "one game, one position a call"}
    answer(about, side.measure)


if __name__ == "__main__":
    main()
