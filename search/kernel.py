"""The tree search on plain arrays (`search.layout`), compiled once per game by `search.compiled`.

`play`, `legal_actions`, `end_reason`, `encode` and `END_VALUES` are not defined here: they are the
names under which `games.jit.specialise` binds a game. `line` holds the game's positions up to the root
and, behind them, those of the path being walked.

PUCT is AlphaZero's (arXiv 1712.01815, pseudocode of the Science paper):
`argmax Q + (log((1 + N + c_base) / c_base) + c_init) * P * sqrt(N) / (1 + n)`, unless `exploration` says
otherwise. Values lie in [-1, 1] here and in [0, 1] there (it backs up 1 - v), so its c_init of 1.25 is 2.5
here.
"""
# mypy: disable-error-code="name-defined,no-untyped-def,no-untyped-call"
# ruff: noqa: F821

from __future__ import annotations

import math

from search.layout import ALPHAGO_ZERO, ALPHAZERO, DONE, FULL, MISFIT, TERMINAL, UCB, UNEXPANDED


def exploration_factor(control, parent_visits):
    """What a prior is multiplied by, before it is divided by 1 + n (UCB: by the root of 1 + n)."""
    if control.exploration == ALPHAZERO:
        c_puct = math.log((1.0 + parent_visits + control.c_base) / control.c_base) + control.c_init
        return c_puct * math.sqrt(float(parent_visits))
    if control.exploration == ALPHAGO_ZERO:
        return control.c_puct * math.sqrt(float(parent_visits))
    return control.c_puct * math.sqrt(math.log(1.0 + parent_visits))


def best_edge(control, edges, first, count, parent_visits, parent_value, fpu_reduction):
    """Index of the edge that PUCT prefers; the first of equals."""
    visited_prior = 0.0
    for e in range(first, first + count):
        if edges[e].visits > 0:
            visited_prior += edges[e].prior
    if control.fpu_absolute:
        unvisited_value = control.fpu_value
    else:
        unvisited_value = parent_value - fpu_reduction * math.sqrt(visited_prior)
    exploration = exploration_factor(control, parent_visits)
    is_ucb = control.exploration == UCB
    best, best_score = first, -math.inf
    for e in range(first, first + count):
        visits = edges[e].visits
        q = float(edges[e].value_sum) / visits if visits > 0 else unvisited_value
        divisor = math.sqrt(1.0 + visits) if is_ucb else 1.0 + visits
        score = q + exploration * edges[e].prior / divisor
        if score > best_score:
            best, best_score = e, score
    return best


def forced_edge(control, edges, first, count, parent_visits):
    """The first root edge that has visits, but less than its forced playouts; -1 if none has."""
    total = parent_visits - 1
    for e in range(first, first + count):
        visits = float(edges[e].visits)
        if visits > 0.0 and visits * visits < control.forced_playouts * edges[e].prior * total:
            return e
    return -1


def backup(control, edges, path, depth, value):
    """Add a leaf's `value` (for its side to move) to every edge above it, turning it at each ply."""
    value = -value
    for i in range(depth - 1, -1, -1):
        edges[path[i]].visits += 1
        edges[path[i]].value_sum += value
        value = -value
    control.root_visits += 1
    control.root_value_sum -= value
    control.depth_sum += depth
    control.deepest = max(control.deepest, depth)


def expand(control, nodes, edges, actions, priors):
    """Append a node for the waiting leaf, one edge for each of its legal actions; return the node.

    `priors` comes from outside: whoever calls has compared its length with `leaf_count`.
    """
    node, first, count = control.nodes, control.edges, control.leaf_count
    nodes[node].first_edge = first
    nodes[node].edge_count = count
    for i in range(count):
        edges[first + i].prior = priors[i]
        edges[first + i].value_sum = 0.0
        edges[first + i].visits = 0
        edges[first + i].child = UNEXPANDED
        edges[first + i].action = actions[i]
    control.nodes = node + 1
    control.edges = first + count
    return node


def open_leaf(control, line, positions, actions, words):
    """Look at `line[positions - 1]`: fill in actions and features, or return that the game is over.

    Returns (is over, value for the side to move). The ply cap is a draw, as the rules of a run say.
    """
    count = legal_actions(line, positions, actions)
    reason = end_reason(line, positions, count, True)
    if reason != 0:
        return True, float(END_VALUES[reason])
    if positions - 1 >= control.max_plies:
        return True, 0.0
    encode(line, positions, control.history, words)
    control.leaf_count = count
    return False, 0.0


def arrive(control, edges, path, depth, line, positions, actions, words):
    """At the end of a descent of `depth` edges. True: its leaf waits for an evaluation; False: the game is
    over there, and its value is backed up."""
    edge = edges[path[depth - 1]]
    if edge.child == TERMINAL:
        backup(control, edges, path, depth, -float(edge.value_sum) / edge.visits)
        return False
    is_over, value = open_leaf(control, line, positions, actions, words)
    if is_over:
        edge.child = TERMINAL
        backup(control, edges, path, depth, value)
        return False
    control.depth = depth
    return True


def descend(control, nodes, edges, path, line, actions, words):
    """One simulation from the root. True: it waits for an evaluation; False: it ended in a terminal."""
    node, depth, positions = 0, 0, control.positions
    visits = control.root_visits
    value = float(control.root_value_sum) / visits
    fpu_reduction = control.fpu_reduction_root
    while True:
        first, count = nodes[node].first_edge, nodes[node].edge_count
        edge = -1
        if depth == 0 and control.forced_playouts > 0.0:
            edge = forced_edge(control, edges, first, count, visits)
        if edge < 0:
            edge = best_edge(control, edges, first, count, visits, value, fpu_reduction)
        path[depth] = edge
        depth += 1
        play(line[positions - 1], edges[edge].action, line[positions])
        positions += 1
        visits = edges[edge].visits
        node = edges[edge].child
        if node < 0:
            break
        value = -float(edges[edge].value_sum) / visits
        fpu_reduction = control.fpu_reduction
    return arrive(control, edges, path, depth, line, positions, actions, words)


def select(tree, nodes, edges, path, line, actions, words):
    """Run simulations until one needs an evaluation; its number of legal actions, or DONE or FULL."""
    control = tree[0]
    while control.remaining > 0:
        if control.nodes == len(nodes) or control.edges + control.max_legal > len(edges):
            return FULL
        control.remaining -= 1
        if descend(control, nodes, edges, path, line, actions, words):
            return control.leaf_count
    return DONE


def resume(tree, nodes, edges, path, line, actions, words, priors, value):
    """Give the waiting leaf its evaluation (expand, backup), then `select` the next one; or MISFIT."""
    control = tree[0]
    if len(priors) != control.leaf_count:
        return MISFIT
    edges[path[control.depth - 1]].child = expand(control, nodes, edges, actions, priors)
    backup(control, edges, path, control.depth, value)
    return select(tree, nodes, edges, path, line, actions, words)


def open_root(tree, line, actions, words):
    """Make the root the waiting leaf; its number of legal actions. It must not be the end of the game."""
    control = tree[0]
    control.leaf_count = legal_actions(line, control.positions, actions)
    encode(line, control.positions, control.history, words)
    return control.leaf_count


def expand_root(tree, nodes, edges, actions, priors, value):
    """The root's own evaluation: it counts as one visit of the root and as no simulation."""
    control = tree[0]
    expand(control, nodes, edges, actions, priors)
    control.root_visits = 1
    control.root_value_sum = value


def add_noise(nodes, edges, noise, share):
    """Mix `noise` (one number an edge, summing to 1) into the priors of the root."""
    first = nodes[0].first_edge
    for i in range(nodes[0].edge_count):
        edges[first + i].prior = (1.0 - share) * edges[first + i].prior + share * noise[i]


def winning_edge(tree, nodes, edges, line, actions, skip):
    """Index of a root edge that ends the game in a win for the side to move, or -1. Begins behind the first
    `skip` edges of the root."""
    control = tree[0]
    positions = control.positions
    first = nodes[0].first_edge
    for e in range(first + skip, first + nodes[0].edge_count):
        play(line[positions - 1], edges[e].action, line[positions])
        count = legal_actions(line, positions + 1, actions)
        reason = end_reason(line, positions + 1, count, False)
        if reason != 0 and END_VALUES[reason] < 0:
            return e
    return -1


def compact(tree, nodes, edges, new_index, root):
    """Keep the subtree under node `root`, which becomes node 0, in place.

    Children stand behind their parents, so one pass in order finds all that is reachable, and each
    node and run of edges moves to the left or stays. `new_index` is scratch, one entry a node.
    """
    control = tree[0]
    used_nodes, used_edges = 0, 0
    for node in range(control.nodes):
        new_index[node] = UNEXPANDED
    new_index[root] = 0
    for node in range(root, control.nodes):
        if new_index[node] == UNEXPANDED:
            continue
        new_index[node] = used_nodes
        first, count = nodes[node].first_edge, nodes[node].edge_count
        nodes[used_nodes].first_edge = used_edges
        nodes[used_nodes].edge_count = count
        for i in range(count):
            edges[used_edges + i] = edges[first + i]
            child = edges[first + i].child
            if child >= 0:
                new_index[child] = 0  # reachable; its index follows when the pass gets there
        used_nodes += 1
        used_edges += count
    control.nodes = used_nodes
    control.edges = used_edges
    relink(nodes, edges, used_nodes, new_index)


def relink(nodes, edges, used_nodes, new_index):
    """Point the moved edges at the moved nodes."""
    for node in range(used_nodes):
        first = nodes[node].first_edge
        for e in range(first, first + nodes[node].edge_count):
            if edges[e].child >= 0:
                edges[e].child = new_index[edges[e].child]


def advance(tree, nodes, edges, line, new_index, action):
    """Play `action` on the board and keep its subtree. True if one was kept."""
    control = tree[0]
    kept = UNEXPANDED
    if control.nodes > 0:
        first = nodes[0].first_edge
        for e in range(first, first + nodes[0].edge_count):
            if edges[e].action == action and edges[e].child >= 0:
                kept = edges[e].child
                control.root_visits = edges[e].visits
                control.root_value_sum = -edges[e].value_sum
    play(line[control.positions - 1], action, line[control.positions])
    control.positions += 1
    control.remaining = 0
    if kept == UNEXPANDED:
        control.nodes = 0
        control.edges = 0
        return False
    compact(tree, nodes, edges, new_index, kept)
    return True


KERNELS = {
    function.__name__: function
    for function in (
        exploration_factor,
        best_edge,
        forced_edge,
        backup,
        expand,
        open_leaf,
        arrive,
        descend,
        select,
        resume,
        open_root,
        expand_root,
        add_noise,
        winning_edge,
        relink,
        compact,
        advance,
    )
}
"""Every function above, for `games.jit.specialise`."""
