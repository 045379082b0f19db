"""The network of pgx's AlphaZero example in Haiku, rewritten: a tower that normalises before it convolves.

Two outputs: logits `[n, actions]` and values `[n]`. The sizes of the heads are the example's.
"""

from __future__ import annotations

from typing import Any

import haiku as hk
import jax
import jax.numpy as jnp

DECAY = 0.9


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
