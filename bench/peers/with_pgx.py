"""pgx and mctx in turns: all games of a batch make a move together, in compiled code (JAX, float32).

The search is that of pgx's AlphaZero example, rewritten, and so is the network: a tower that normalises
before it convolves. Runs in the peers' environment.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import haiku as hk
import jax
import jax.numpy as jnp
import mctx
import pgx
from pgx.experimental import auto_reset

from bench.peers.answering import Counts, Options, answer, options, versions

BATCHES = {"connect_four": 256, "chess": 64}
"""Default number of concurrent games. The example has 1,024, on GPUs."""

DECAY = 0.9

Evaluate = Callable[[Any, Any], tuple[jax.Array, jax.Array]]
"""`(model, state)` to logits `[n, actions]` and values `[n]` for the side to move."""


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


class Tower(hk.Module):
    """`blocks` residual blocks of `channels`, a policy of `actions` logits, a value after tanh."""

    def __init__(self, actions: int, blocks: int, channels: int) -> None:
        super().__init__()
        self._actions, self._blocks, self._channels = actions, blocks, channels

    def __call__(self, planes: jax.Array, is_training: bool) -> tuple[jax.Array, jax.Array]:
        """`planes [n, rows, cols, planes]`."""

        def active(x: jax.Array) -> jax.Array:
            return jax.nn.relu(hk.BatchNorm(True, True, DECAY)(x, is_training))

        def head(x: jax.Array, channels: int) -> jax.Array:
            return hk.Flatten()(active(hk.Conv2D(channels, 1)(x)))

        x = hk.Conv2D(self._channels, 3)(planes.astype(jnp.float32))
        for _ in range(self._blocks):
            x = x + hk.Conv2D(self._channels, 3)(active(hk.Conv2D(self._channels, 3)(active(x))))
        x = active(x)
        hidden = jax.nn.relu(hk.Linear(self._channels)(head(x, 1)))
        value = jnp.tanh(hk.Linear(1)(hidden))[:, 0]
        return hk.Linear(self._actions)(head(x, 2)), value


def network(actions: int, tower: tuple[int, int]) -> Any:
    """`init(key, planes)` and `apply((parameters, averages), planes, is_training)` of a `Tower`."""

    def forward(planes: jax.Array, is_training: bool = False) -> tuple[jax.Array, jax.Array]:
        return Tower(actions, *tower)(planes, is_training)

    return hk.without_apply_rng(hk.transform_with_state(forward))


def free(model: Any, state: Any) -> tuple[jax.Array, jax.Array]:  # noqa: ARG001
    """A network that knows and costs nothing."""
    mask = state.legal_action_mask
    return jnp.zeros(mask.shape, jnp.float32), jnp.zeros(mask.shape[0], jnp.float32)


def legal_only(logits: jax.Array, state: Any) -> jax.Array:
    """`logits [n, actions]`, replaced by about -infinity where an action is not legal."""
    return jnp.where(state.legal_action_mask, logits, jnp.finfo(logits.dtype).min)


def searcher(game: pgx.Env, evaluate: Evaluate, simulations: int, gumbel_scale: float = 1.0) -> Any:
    """`(model, state, key)` to mctx's output for every game of `state`: Gumbel AlphaZero."""

    def simulate(model: Any, key: Any, action: jax.Array, state: Any) -> Any:  # noqa: ARG001
        mover = state.current_player
        state = jax.vmap(game.step)(state, action)
        logits, value = evaluate(model, state)
        ended = state.terminated
        output = mctx.RecurrentFnOutput(
            reward=state.rewards[jnp.arange(len(mover)), mover],
            discount=jnp.where(ended, 0.0, -1.0),
            prior_logits=legal_only(logits, state),
            value=jnp.where(ended, 0.0, value),
        )
        return output, state

    def search(model: Any, state: Any, key: Any) -> Any:
        logits, value = evaluate(model, state)
        return mctx.gumbel_muzero_policy(
            params=model,
            rng_key=key,
            root=mctx.RootFnOutput(prior_logits=logits, value=value, embedding=state),
            recurrent_fn=simulate,
            num_simulations=simulations,
            invalid_actions=~state.legal_action_mask,
            qtransform=mctx.qtransform_completed_by_mix_value,
            gumbel_scale=gumbel_scale,
        )

    return search


def played(game: pgx.Env, state: Any, action: jax.Array, key: Any) -> Any:
    """The games after `action [n]`; those that have ended start again."""
    keys = jax.random.split(key, action.shape[0])
    return jax.vmap(auto_reset(game.step, game.init))(state, action, keys)


if __name__ == "__main__":
    main()
