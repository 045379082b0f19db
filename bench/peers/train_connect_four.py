"""Connect Four learned by pgx and mctx for some minutes: the loop of pgx's AlphaZero example, rewritten.

A batch of games is played for as many moves as a game can have, then every position is trained on once. Runs
in the peers' environment. `bench.peers.on_labels` starts it and judges its output: the moves it plays in
given positions.
"""

from __future__ import annotations

import argparse
import json
import time
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pgx

from bench.peers.jax_network import network
from bench.peers.pgx_search import legal_only, played, searcher

TOWER = 3, 48
GAMES, STEPS, BATCH = 128, 42, 256
"""Concurrent games, moves of each in an iteration, positions of a training step. The example has 1,024, 256
and 4,096 on GPUs."""
SIMULATIONS, LEARNING_RATE = 32, 1e-3
"""As in the example."""
JUDGED_SIMULATIONS = 64


class Step(NamedTuple):
    """One move of every game: `[games, ...]`, with a first axis of STEPS where they are stacked."""

    planes: jax.Array
    policy: jax.Array
    reward: jax.Array
    terminated: jax.Array


class Learner:
    """The network, its optimizer, and one iteration of games and training steps."""

    def __init__(self, seed: int) -> None:
        self.game = pgx.make("connect_four")
        self.net = network(self.game.num_actions, TOWER)
        self.key = jax.random.PRNGKey(seed)
        state = self.begun(2)
        self.model = self.net.init(self.key, state.observation, True)
        self._optimizer = optax.adam(LEARNING_RATE)
        self._adam = self._optimizer.init(self.model[0])
        self.positions = self.steps = 0
        self._self_play = jax.jit(self._play)
        self._step = jax.jit(self._learn)

    def begun(self, games: int) -> Any:
        """`games` games at their start."""
        return jax.vmap(self.game.init)(jax.random.split(self.key, games))

    def evaluate(self, model: Any, state: Any) -> Any:
        return self.net.apply(*model, state.observation)[0]

    def iterate(self) -> tuple[float, float]:
        """Play, then train on every position once. Returns mean policy and value loss."""
        self.key, for_games, for_order = jax.random.split(self.key, 3)
        planes, policy, values, known = map(np.asarray, self._self_play(self.model, for_games))
        order = np.asarray(jax.random.permutation(for_order, len(planes)))
        losses = []
        for begin in range(0, len(order) - BATCH + 1, BATCH):
            rows = order[begin : begin + BATCH]
            batch = (planes[rows], policy[rows], values[rows], known[rows])
            self.model, self._adam, found = self._step(self.model, self._adam, batch)
            losses.append(found)
        self.positions += len(planes)
        self.steps += len(losses)
        policy_loss, value_loss = np.mean(np.asarray(losses), axis=0).tolist()
        return policy_loss, value_loss

    def _play(self, model: Any, key: Any) -> Any:
        """Planes, policy targets, value targets and whether these are known, of GAMES * STEPS positions."""
        search = searcher(self.game, self.evaluate, SIMULATIONS)

        def move(state: Any, key: Any) -> Any:
            first, second = jax.random.split(key)
            found = search(model, state, first)
            after = played(self.game, state, found.action, second)
            reward = after.rewards[jnp.arange(GAMES), state.current_player]
            return after, Step(state.observation, found.action_weights, reward, after.terminated)

        _, steps = jax.lax.scan(move, self.begun(GAMES), jax.random.split(key, STEPS))

        def back(later: Any, step: Step) -> Any:
            value, known = later
            value = step.reward + jnp.where(step.terminated, 0.0, -value)
            known = known | step.terminated
            return (value, known), (value, known)

        nothing = jnp.zeros(GAMES), jnp.zeros(GAMES, bool)
        _, (values, known) = jax.lax.scan(back, nothing, steps, reverse=True)
        return jax.tree.map(
            lambda x: x.reshape(-1, *x.shape[2:]), (steps.planes, steps.policy, values, known)
        )

    def _learn(self, model: Any, adam: Any, batch: Any) -> Any:
        planes, policy, values, known = batch

        def loss(parameters: Any) -> Any:
            (logits, value), averages = self.net.apply(parameters, model[1], planes, True)
            policy_loss = optax.softmax_cross_entropy(logits, policy).mean()
            value_loss = (optax.l2_loss(value, values) * known).mean()
            return policy_loss + value_loss, (averages, jnp.stack([policy_loss, value_loss]))

        gradients, (averages, losses) = jax.grad(loss, has_aux=True)(model[0])
        updates, adam = self._optimizer.update(gradients, adam)
        return (optax.apply_updates(model[0], updates), averages), adam, losses


def states_after(learner: Learner, games: list[list[int]]) -> Any:
    """pgx's states after these moves, one game a row."""
    longest = max(map(len, games))
    moves = np.full((longest, len(games)), -1, np.int32)
    for row, actions in enumerate(games):
        moves[: len(actions), row] = actions

    def move(state: Any, actions: Any) -> Any:
        after = jax.vmap(learner.game.step)(state, jnp.maximum(actions, 0))
        is_made = actions >= 0

        def chosen(new: Any, old: Any) -> Any:
            return jnp.where(is_made.reshape(-1, *[1] * (new.ndim - 1)), new, old)

        return jax.tree.map(chosen, after, state), None

    return jax.jit(partial(jax.lax.scan, move))(learner.begun(len(games)), moves)[0]


def moves_in(learner: Learner, games: list[list[int]]) -> dict[str, list[int]]:
    """The moves played after each game: by the bare policy, and by a search without noise."""
    states = states_after(learner, games)
    search = jax.jit(searcher(learner.game, learner.evaluate, JUDGED_SIMULATIONS, gumbel_scale=0.0))
    logits, _ = jax.jit(learner.evaluate)(learner.model, states)
    raw = legal_only(logits, states).argmax(axis=1)
    searched = search(learner.model, states, learner.key).action
    return {"0": raw.tolist(), str(JUDGED_SIMULATIONS): searched.tolist()}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--positions", type=Path, required=True, help="JSON: the moves that lead to each")
    parser.add_argument("--out", type=Path, required=True)
    chosen = parser.parse_args()
    began = time.monotonic()
    learner = Learner(chosen.seed)
    while time.monotonic() - began < 60 * chosen.minutes:
        policy_loss, value_loss = learner.iterate()
        minutes = (time.monotonic() - began) / 60
        print(
            f"{minutes:.1f} min: {learner.positions:,} positions, {learner.steps} steps, "
            f"policy loss {policy_loss:.3f}, value loss {value_loss:.3f}",
            flush=True,
        )
    moves = moves_in(learner, json.loads(chosen.positions.read_text()))
    figures = {"positions": learner.positions, "steps": learner.steps, "moves": moves}
    chosen.out.write_text(json.dumps(figures))


if __name__ == "__main__":
    main()
