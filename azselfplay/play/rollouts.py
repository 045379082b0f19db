"""A player that searches without a network: UCT, which is tree search with random playouts.

Each simulation adds one node, plays random moves from it to the end of the game (the ply cap is a draw), and
backs the result up; each edge gets the result for the side that moves there. Unvisited children come first,
then UCB1 decides (Kocsis and Szepesvari 2006): `Q + C sqrt(ln N / n)` with Q in [-1, 1] and C = 1.4. Random
numbers come from xorshift64* on `seed: uint64[1]`, so the seed determines the game.
"""

from __future__ import annotations

import math
import sys
from functools import cache
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from azselfplay.games import get_game
from azselfplay.games.game_history import GameHistory
from azselfplay.games.jit import bind, kernel
from azselfplay.games.spec import NO_ROOT, Game, Positions
from azselfplay.games.stubs import (
    END_VALUES,
    Actions,
    Words,
    end_reason,
    legal_actions,
    play,
    side_to_move,
)
from azselfplay.games.stubs import bindings as rules_bindings
from azselfplay.play.kernel_players import Think, with_room


def rollout_think(game: Game, simulations: int) -> Think:
    """Return a player that takes the most visited move of UCT with random playouts. Every move gets a new
    tree."""
    kernels = kernels_for(game.name)

    def think(game_history: GameHistory, rng: np.random.Generator) -> int:
        # A playout may continue up to the ply cap.
        room = max(1, game_history.max_plies - game_history.ply) + 1
        tree = Tree(
            nodes=np.empty((simulations + 1, 3), np.int32),
            # Each simulation adds at most one node.
            edges=np.empty(((simulations + 1) * game.max_legal, 4), np.int32),
            used=np.zeros(2, np.int64),
            path=np.empty(room, np.int32),
        )
        # The seed must not be 0, because xorshift would stay at 0 for ever.
        seed = rng.integers(1, 2**63, size=1, dtype=np.uint64)
        action = kernels.run_rollouts(
            tree,
            with_room(game_history, room),
            game_history.ply + 1,
            game_history.max_plies,
            np.zeros(game.max_legal, np.uint16),
            seed,
            simulations,
        )
        return int(action)

    return think


@cache
def kernels_for(game_name: str) -> SimpleNamespace:
    """Return `run_rollouts` and the functions that it calls, bound to one game."""
    game = get_game(game_name)
    return bind([sys.modules[__name__]], {game.name: rules_bindings(game)})


EXPLORATION = 1.4

NO_CHILD = -1


class Tree(NamedTuple):
    """A search tree with room for one node per simulation. Node 0 is the root."""

    nodes: npt.NDArray[np.int32]
    """[nodes, 3] first edge, number of edges, value if the game is over."""
    edges: npt.NDArray[np.int32]
    """[edges, 4] action, child or NO_CHILD, visits, sum of values."""
    used: npt.NDArray[np.int64]
    """[2] nodes and edges in use, 0 before a search."""
    path: npt.NDArray[np.int32]
    """[longest line] scratch."""


@kernel
def run_rollouts(
    tree: Tree, positions: Positions, n: int, max_plies: int, actions: Actions, seed: Words, simulations: int
) -> int:
    """Return the most visited action. The game is not over at `positions[n - 1]`.

    positions  [max_plies + 2, state_words]; actions  [max_legal] scratch; seed  [1]
    """
    nodes, edges = tree.nodes, tree.edges
    open_node(tree, positions, n, max_plies, actions, NO_ROOT)
    for _ in range(simulations):
        simulate(tree, positions, n, max_plies, actions, seed)
    best = 0
    # The root's edges are the first ones.
    for e in range(1, nodes[0, 1]):
        if edges[e, 2] > edges[best, 2]:
            best = e
    return int(edges[best, 0])


@kernel
def simulate(tree: Tree, positions: Positions, n: int, max_plies: int, actions: Actions, seed: Words) -> None:
    """Run one simulation from the root, which is at `positions[n - 1]`.

    positions  [max_plies + 2, state_words]; actions  [max_legal] scratch; seed  [1]
    """
    nodes, edges, path = tree.nodes, tree.edges, tree.path
    node, depth, root = 0, 0, n - 1
    while nodes[node, 1] > 0:
        edge = best_edge(edges, nodes[node, 0], nodes[node, 1], seed)
        path[depth] = edge
        depth += 1
        play(positions[n - 1], edges[edge, 0], positions[n])
        n += 1
        if edges[edge, 1] == NO_CHILD:
            node = open_node(tree, positions, n, max_plies, actions, root)
            edges[edge, 1] = node
            break
        node = edges[edge, 1]
    # The value is for the side to move at the leaf; each edge gets it for the side that moves there.
    value, mover = nodes[node, 2], side_to_move(positions[n - 1])
    if nodes[node, 1] > 0:
        # The game is not over at the leaf, so a random playout gives the value.
        value = play_out(positions, n, root, max_plies, actions, seed)
    for i in range(depth):
        edges[path[i], 2] += 1
        edges[path[i], 3] += value if side_to_move(positions[root + i]) == mover else -value


@kernel
def open_node(tree: Tree, positions: Positions, n: int, max_plies: int, actions: Actions, root: int) -> int:
    """Append a node for `positions[n - 1]`, and return its index.

    `root`: index of the root in `positions`; `NO_ROOT` for the root itself, which always needs a move.
    positions  [>= n, state_words]; actions  [max_legal] scratch
    """
    nodes, edges, used = tree.nodes, tree.edges, tree.used
    node: int = used[0]
    edge = used[1]
    count = legal_actions(positions, n, actions)
    reason = end_reason(positions, n, count, root)
    value = 0
    if reason != 0 or n - 1 >= max_plies:
        count = 0
        value = int(END_VALUES[reason])
    nodes[node, 0], nodes[node, 1], nodes[node, 2] = edge, count, value
    for i in range(count):
        edges[edge + i, 0], edges[edge + i, 1] = actions[i], NO_CHILD
        edges[edge + i, 2], edges[edge + i, 3] = 0, 0
    used[0], used[1] = node + 1, edge + count
    return node


@kernel
def best_edge(edges: npt.NDArray[np.int32], first: int, count: int, seed: Words) -> int:
    """Return a random unvisited edge, or else the edge with the largest UCB1. edges  [edges, 4]; seed  [1]"""
    unvisited, visits = 0, 0
    for e in range(first, first + count):
        visits += edges[e, 2]
        if edges[e, 2] == 0:
            unvisited += 1
    if unvisited:
        # Choose at random, because otherwise the first move in the rules' order would be favoured.
        lot = draw_below(seed, unvisited)
        for e in range(first, first + count):
            if edges[e, 2] == 0:
                if lot == 0:
                    return e
                lot -= 1
    # All edges have visits here, so there is no logarithm of 0 and no division by 0.
    best, best_score, log = first, -math.inf, math.log(float(visits))
    for e in range(first, first + count):
        seen = edges[e, 2]
        score = edges[e, 3] / seen + EXPLORATION * math.sqrt(log / seen)
        if score > best_score:
            best, best_score = e, score
    return best


@kernel
def play_out(positions: Positions, n: int, root: int, max_plies: int, actions: Actions, seed: Words) -> int:
    """Play random moves from `positions[n - 1]` to the end of the game, in a search from `positions[root]`;
    return the value for the side to move at `positions[n - 1]`.

    positions  [max_plies + 2, state_words]; actions  [max_legal] scratch; seed  [1]
    """
    mover = side_to_move(positions[n - 1])
    while True:
        count = legal_actions(positions, n, actions)
        reason = end_reason(positions, n, count, root)
        if reason != 0:
            value = int(END_VALUES[reason])
            return value if side_to_move(positions[n - 1]) == mover else -value
        if n - 1 >= max_plies:
            return 0
        play(positions[n - 1], actions[draw_below(seed, count)], positions[n])
        n += 1


@kernel
def draw_below(seed: Words, limit: int) -> int:
    """Return a random number in [0, limit). seed  [1]"""
    word = seed[0]
    word ^= word >> np.uint64(12)
    word ^= word << np.uint64(25)
    word ^= word >> np.uint64(27)
    seed[0] = word
    # Use the upper bits, because the lower bits of xorshift* are less random.
    return int(((word * np.uint64(0x2545F4914F6CDD1D)) >> np.uint64(33)) % np.uint64(limit))
