"""Monte-Carlo tree search with random playouts (UCT), compiled once a game (`search_players.kernels_for`).

Each simulation adds one node, plays at random from it to the end of the game (the ply cap is a draw), and
backs the result up, on each edge for the side that moves there. Unvisited children come first, then
UCB1 (Kocsis and Szepesvari 2006): `Q + C sqrt(ln N / n)` with Q in [-1, 1] and C = 1.4. Random numbers
are xorshift64* on `seed: uint64[1]`, so a seed gives one game.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from games.jit import kernel
from games.spec import NO_ROOT, Positions
from games.stubs import END_VALUES, Actions, Words, end_reason, legal_actions, play, side_to_move

EXPLORATION = 1.4
NO_CHILD = -1


class Tree(NamedTuple):
    """A search tree with room for one node a simulation. Node 0 is the root."""

    nodes: npt.NDArray[np.int32]
    """[nodes, 3] first edge, number of edges, value if the game is over."""
    edges: npt.NDArray[np.int32]
    """[edges, 4] action, child or NO_CHILD, visits, sum of values."""
    used: npt.NDArray[np.int64]
    """[2] nodes and edges in use, 0 before a search."""
    path: npt.NDArray[np.int32]
    """[longest line] scratch."""


@kernel
def draw_below(seed: Words, limit: int) -> int:
    """A random number in [0, limit). seed  [1]"""
    word = seed[0]
    word ^= word >> np.uint64(12)
    word ^= word << np.uint64(25)
    word ^= word >> np.uint64(27)
    seed[0] = word
    return int(((word * np.uint64(0x2545F4914F6CDD1D)) >> np.uint64(33)) % np.uint64(limit))


@kernel
def play_out(positions: Positions, n: int, root: int, max_plies: int, actions: Actions, seed: Words) -> int:
    """Value of `positions[n - 1]` for its side to move after random moves to the end of the game, in a search
    from `positions[root]`.

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
def open_node(tree: Tree, positions: Positions, n: int, max_plies: int, actions: Actions, root: int) -> int:
    """Append the node of `positions[n - 1]`, and return it.

    `root`: index of the root in `positions`; `NO_ROOT` for the root itself, where a move is needed.
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
    """A random unvisited edge, or else the one with the largest UCB1. edges  [edges, 4]; seed  [1]"""
    unvisited, visits = 0, 0
    for e in range(first, first + count):
        visits += edges[e, 2]
        if edges[e, 2] == 0:
            unvisited += 1
    if unvisited:
        lot = draw_below(seed, unvisited)
        for e in range(first, first + count):
            if edges[e, 2] == 0:
                if lot == 0:
                    return e
                lot -= 1
    best, best_score, log = first, -math.inf, math.log(float(visits))
    for e in range(first, first + count):
        seen = edges[e, 2]
        score = edges[e, 3] / seen + EXPLORATION * math.sqrt(log / seen)
        if score > best_score:
            best, best_score = e, score
    return best


@kernel
def simulate(tree: Tree, positions: Positions, n: int, max_plies: int, actions: Actions, seed: Words) -> None:
    """One simulation from the root, at `positions[n - 1]`.

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
    value, mover = nodes[node, 2], side_to_move(positions[n - 1])
    if nodes[node, 1] > 0:
        value = play_out(positions, n, root, max_plies, actions, seed)
    for i in range(depth):
        edges[path[i], 2] += 1
        edges[path[i], 3] += value if side_to_move(positions[root + i]) == mover else -value


@kernel
def run_rollouts(
    tree: Tree, positions: Positions, n: int, max_plies: int, actions: Actions, seed: Words, simulations: int
) -> tuple[int, float]:
    """(most visited action, its mean value for the side to move). The game goes on at `positions[n - 1]`.

    positions  [max_plies + 2, state_words]; actions  [max_legal] scratch; seed  [1]
    """
    nodes, edges = tree.nodes, tree.edges
    open_node(tree, positions, n, max_plies, actions, NO_ROOT)
    for _ in range(simulations):
        simulate(tree, positions, n, max_plies, actions, seed)
    best = 0
    for e in range(1, nodes[0, 1]):
        if edges[e, 2] > edges[best, 2]:
            best = e
    return edges[best, 0], edges[best, 3] / max(1, edges[best, 2])
