"""A move of many games at once by pgx and mctx, as in pgx's AlphaZero example, rewritten."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import mctx
import pgx
from pgx.experimental import auto_reset

Evaluate = Callable[[Any, Any], tuple[jax.Array, jax.Array]]
"""`(model, state)` to logits `[n, actions]` and values `[n]` for the side to move."""


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
