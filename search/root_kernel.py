"""Kernels for the root of a tree, before and after the search."""

from __future__ import annotations

from typing import Any

import numpy as np

from games.jit import kernel, signed
from games.stubs import encode, legal_actions, side_to_move, wins_at_once
from search.layout import BLOCKED, TERMINAL, UNEXPANDED, Tree
from search.tree_kernel import backup, edge_proof, expand, prove


@kernel
def look_at_root(tree: Tree, history: Any, positions_seen: int, packed_features: Any, actions: Any) -> int:
    """Write `packed_features` (uint64[W], of `positions_seen` positions) and legal `actions`
    (uint16[max_legal]) of the root. Returns the number of actions. `history`: uint64[max_plies + 2,
    state_words]."""
    positions = tree.state[0].positions
    count = legal_actions(history, positions, actions)
    encode(history, positions, positions_seen, packed_features)
    return int(count)


@kernel
def expand_root(tree: Tree, history: Any, actions: Any, priors: Any, value: float) -> bool:
    """Give the root its evaluation, `priors [n]` over its legal actions. Returns False if there are not n of
    these. `history` uint64[max_plies + 2, state_words]; `actions` uint16[max_legal] is scratch."""
    state = tree.state[0]
    if legal_actions(history, state.positions, actions) != len(priors):
        return False
    expand(tree, actions, priors, side_to_move(history[state.positions - 1]))
    state.root_visits = 1
    state.root_value_sum = value
    return True


@kernel
def mix_noise(tree: Tree, noise: Any, share: float) -> None:
    """Mix `noise` (float64[n], one number per edge, summing to 1) into the priors of the root."""
    first = tree.nodes[0].first_edge
    for i in range(tree.nodes[0].edge_count):
        prior = tree.edges[first + i].prior
        tree.edges[first + i].prior = (1.0 - share) * prior + share * noise[i]
    tree.state[0].has_noise = 1


@kernel
def view_of_net(tree: Tree, actions: Any, priors: Any) -> float:
    """Write the root's legal actions (uint16[max_legal]) and their priors (float32[max_legal]). Returns the
    network's own value, which is the root's sum minus that of its edges."""
    first, behind = tree.nodes[0].first_edge, 0.0
    for i in range(tree.nodes[0].edge_count):
        actions[i] = tree.edges[first + i].action
        priors[i] = tree.edges[first + i].prior
        behind += float(tree.edges[first + i].value_sum)
    return min(1.0, max(-1.0, float(tree.state[0].root_value_sum) - behind))


@kernel
def winning_edges(tree: Tree, history: Any, legal: Any, found: Any) -> int:
    """Write the root's edges that win at once to `found` (int32[max_legal]). Returns their number. `history`
    uint64[max_plies + 2, state_words]; `legal` uint16[max_legal] is scratch."""
    count, first, positions = 0, tree.nodes[0].first_edge, tree.state[0].positions
    for edge in range(first, first + tree.nodes[0].edge_count):
        if wins_at_once(history, positions, signed(tree.edges[edge].action), legal):
            found[count] = edge
            count += 1
    return count


@kernel
def visited_edges(tree: Tree, actions: Any, visits: Any) -> int:
    """Write the root's actions with visits, ascending (uint16[max_legal]), and their visits
    (int32[max_legal]). Returns their number. Each is inserted in its place: no second array, no sort."""
    count, first = 0, tree.nodes[0].first_edge
    for edge in range(first, first + tree.nodes[0].edge_count):
        action, n = tree.edges[edge].action, tree.edges[edge].visits
        if n == 0:
            continue
        at = count
        while at > 0 and actions[at - 1] > action:
            actions[at], visits[at] = actions[at - 1], visits[at - 1]
            at -= 1
        actions[at], visits[at] = action, n
        count += 1
    return count


@kernel
def take_win(tree: Tree, path: Any, edge: int) -> None:
    """Record that the root's `edge` wins at once, as one simulation of it would. `path`: STEP[1]."""
    if tree.edges[edge].child == UNEXPANDED and tree.edges[edge].in_flight != BLOCKED:
        path[0].node = 0
        path[0].edge = edge
        tree.edges[edge].child = TERMINAL
        backup(tree, path, 1, 1.0, tree.nodes[0].mover)
        prove(tree, path, 1)


@kernel
def forget_simulations(tree: Tree) -> int:
    """Return the root to the state after its evaluation: the values from its edges are subtracted from its
    sum. If the root was proven, its sum lacks the evaluation, and the rest is cut to a value. Returns how
    many of its edges are not BLOCKED."""
    state, behind, free = tree.state[0], np.float32(0.0), 0
    first, count = tree.nodes[0].first_edge, tree.nodes[0].edge_count
    for edge in range(first, first + count):
        behind += tree.edges[edge].value_sum
        free += tree.edges[edge].in_flight != BLOCKED
        tree.edges[edge].visits = 0
        tree.edges[edge].value_sum = 0.0
        tree.edges[edge].child = UNEXPANDED
    state.root_value_sum = min(np.float32(1.0), max(np.float32(-1.0), state.root_value_sum - behind))
    state.root_visits = 1
    state.nodes = 1
    state.edges = count
    tree.nodes[0].proof = 0
    return free


@kernel
def edge_proofs(tree: Tree, node: int, proofs: Any) -> None:
    """Write the proofs of the edges of `node`, for the side that chooses, to `proofs` (int64[n])."""
    first = tree.nodes[node].first_edge
    for i in range(tree.nodes[node].edge_count):
        proofs[i] = edge_proof(tree, node, first + i)
