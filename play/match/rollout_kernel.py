"""Monte-Carlo tree search with random playouts (UCT), compiled once per game by `play.match.compiled`.

Each simulation adds one node, plays at random from it to the end of the game (the ply cap is a draw), and
backs the result up, to each edge as the side that moves there sees it. A child never visited comes first,
then UCB1 (Kocsis and Szepesvari 2006): `Q + C sqrt(ln N / n)` with Q in [-1, 1] and C = 1.4. Random numbers
are xorshift64* on `seed: uint64[1]`, so a seed gives one game.
"""
# mypy: disable-error-code="name-defined,no-untyped-def,no-untyped-call"
# ruff: noqa: F821

from __future__ import annotations

import math

import numpy as np

EXPLORATION = 1.4
NO_CHILD = -1


def draw_below(seed, limit):
    """A random number in [0, limit)."""
    word = seed[0]
    word ^= word >> np.uint64(12)
    word ^= word << np.uint64(25)
    word ^= word >> np.uint64(27)
    seed[0] = word
    return int(((word * np.uint64(0x2545F4914F6CDD1D)) >> np.uint64(33)) % np.uint64(limit))


def play_out(line, n, max_plies, actions, seed):
    """Value of `line[n - 1]` for its side to move after random moves to the end of the game."""
    mover = side_to_move(line[n - 1])
    while True:
        count = legal_actions(line, n, actions)
        reason = end_reason(line, n, count, True)
        if reason != 0:
            value = int(END_VALUES[reason])
            return value if side_to_move(line[n - 1]) == mover else -value
        if n - 1 >= max_plies:
            return 0
        play(line[n - 1], actions[draw_below(seed, count)], line[n])
        n += 1


def open_node(nodes, edges, used, line, n, max_plies, actions):
    """Append the node of `line[n - 1]`; returns (edges used now, is over, value if over)."""
    node, edge = used[0], used[1]
    count = legal_actions(line, n, actions)
    reason = end_reason(line, n, count, True)
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


def best_edge(edges, first, count, seed):
    """An unvisited edge, drawn by lot, or the one with the largest UCB1."""
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


def simulate(nodes, edges, used, path, line, n, max_plies, actions, seed):
    """One simulation from the root, node 0."""
    node, depth, root = 0, 0, n - 1
    while nodes[node, 1] > 0:
        edge = best_edge(edges, nodes[node, 0], nodes[node, 1], seed)
        path[depth] = edge
        depth += 1
        play(line[n - 1], edges[edge, 0], line[n])
        n += 1
        if edges[edge, 1] == NO_CHILD:
            node = open_node(nodes, edges, used, line, n, max_plies, actions)
            edges[edge, 1] = node
            break
        node = edges[edge, 1]
    value, mover = nodes[node, 2], side_to_move(line[n - 1])
    if nodes[node, 1] > 0:
        value = play_out(line, n, max_plies, actions, seed)
    for i in range(depth):
        edges[path[i], 2] += 1
        edges[path[i], 3] += value if side_to_move(line[root + i]) == mover else -value


def run_rollouts(nodes, edges, path, line, n, max_plies, actions, seed, simulations):
    """(most visited action, its mean value for the side to move). The game goes on at `line[n - 1]`."""
    used = np.zeros(2, np.int64)
    open_node(nodes, edges, used, line, n, max_plies, actions)
    for _ in range(simulations):
        simulate(nodes, edges, used, path, line, n, max_plies, actions, seed)
    best = 0
    for e in range(1, nodes[0, 1]):
        if edges[e, 2] > edges[best, 2]:
            best = e
    return edges[best, 0], edges[best, 3] / max(1, edges[best, 2])


KERNELS = {
    function.__name__: function
    for function in (draw_below, play_out, open_node, best_edge, simulate, run_rollouts)
}
"""Every function above, for `games.jit.specialise`."""
