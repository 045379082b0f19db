"""Kernels on one tree: expand and back up a leaf, prove wins and losses, prepare and read the root, play a
move.

Kernels are plain functions on arrays (`search.layout`), compiled once per game and selection
(`search.compiled`); those that step a search are in `search.step_kernel`. Between two nodes a value changes
its sign only if the mover changes, because in some games a player may move twice.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from azselfplay.games.jit import kernel
from azselfplay.games.spec import NO_ROOT
from azselfplay.games.stubs import end_reason, legal_actions, play, side_to_move, wins_among
from azselfplay.search.layout import BLOCKED, CUT, TERMINAL, UNEXPANDED, Tree

# ---- A leaf -----------------------------------------------------------------------------------------


@kernel
def expand(tree: Tree, actions: Any, priors: Any, mover: int) -> int:
    """Append a node whose side to move is `mover`, with one edge for each prior. Returns the node.

    `priors [n]` comes from outside, so the caller must have compared n with the number of legal `actions`.
    """
    state = tree.state[0]
    node, first, count = state.nodes, state.edges, len(priors)
    tree.nodes[node].first_edge = first
    tree.nodes[node].edge_count = count
    tree.nodes[node].mover = mover
    tree.nodes[node].proof = 0
    for i in range(count):
        edge = first + i
        tree.edges[edge].prior = priors[i]
        tree.edges[edge].value_sum = 0.0
        tree.edges[edge].visits = 0
        tree.edges[edge].child = UNEXPANDED
        tree.edges[edge].action = actions[i]
        tree.edges[edge].in_flight = 0
    state.nodes = node + 1
    state.edges = first + count
    return node


@kernel
def backup(tree: Tree, path: Any, depth: int, value: float, mover: int) -> None:
    """Add a leaf's `value`, for the player `mover`, to every edge of `path` (PATH_EDGE[depth]) and to the
    root."""
    state = tree.state[0]
    for i in range(depth):
        edge = path[i].edge
        tree.edges[edge].visits += 1
        tree.edges[edge].value_sum += value if tree.nodes[path[i].node].mover == mover else -value
    state.root_visits += 1
    state.root_value_sum += value if tree.nodes[0].mover == mover else -value
    state.depth_sum += depth
    state.deepest = max(state.deepest, depth)


@kernel
def value_sum_of(tree: Tree, parent: int, edge: int, node: int) -> float:
    """Return `value_sum` of the edge from `parent` to `node`, for the side to move at `node`."""
    value_sum = float(tree.edges[edge].value_sum)
    return value_sum if tree.nodes[parent].mover == tree.nodes[node].mover else -value_sum


# ---- Proofs -----------------------------------------------------------------------------------------


@kernel
def edge_proof(tree: Tree, node: int, edge: int) -> int:
    """Return the proof of `edge` for the side to move at `node`: plies to its win, minus the plies to its
    loss, or 0."""
    child = tree.edges[edge].child
    if child == UNEXPANDED or child <= CUT:
        return 0
    if child == TERMINAL:
        value = float(tree.edges[edge].value_sum) / tree.edges[edge].visits
        return 1 if value > 0.5 else (-1 if value < -0.5 else 0)
    known = int(tree.nodes[child].proof)
    if known == 0:
        return 0
    if tree.nodes[node].mover != tree.nodes[child].mover:
        known = -known
    return known + 1 if known > 0 else known - 1


@kernel
def node_proof(tree: Tree, node: int) -> int:
    """Return the proof of `node` for its side to move: the quickest win; the slowest loss if every edge is a
    proven loss; else 0. A single edge without proof prevents the proof of a loss."""
    win, loss, unproven = 0, 0, 0
    first = tree.nodes[node].first_edge
    for edge in range(first, first + tree.nodes[node].edge_count):
        known = edge_proof(tree, node, edge)
        if known > 0 and (win == 0 or known < win):
            win = known
        elif known < 0:
            loss = min(loss, known)
        elif known == 0:
            unproven += 1
    if win > 0:
        return win
    return 0 if unproven > 0 else loss


@kernel
def prove(tree: Tree, path: Any, depth: int) -> None:
    """Propagate the proof found at the end of `path` (PATH_EDGE[depth]) towards the root."""
    for i in range(depth - 1, -1, -1):
        node = path[i].node
        known = node_proof(tree, node)
        if known == tree.nodes[node].proof:
            return  # then nothing above changes either
        is_new = tree.nodes[node].proof == 0
        tree.nodes[node].proof = known  # perhaps a shorter win, or a longer loss, than before
        if is_new and i > 0 and tree.state[0].solves:
            correct(tree, path, i, known)


@kernel
def correct(tree: Tree, path: Any, depth: int, known: int) -> None:
    """Correct the values above the node at path[depth] (PATH_EDGE), whose proof is now `known`: all its
    earlier visits count as if they had found the proven result, in the edge that leads to it and in all edges
    above."""
    node, above, edge = path[depth].node, path[depth - 1].node, path[depth - 1].edge
    mover = tree.nodes[above].mover
    wins = (known > 0) == (tree.nodes[node].mover == mover)
    exact = np.float32(tree.edges[edge].visits if wins else -tree.edges[edge].visits)
    change = exact - tree.edges[edge].value_sum
    tree.edges[edge].value_sum = exact
    for i in range(depth - 1):
        tree.edges[path[i].edge].value_sum += change if tree.nodes[path[i].node].mover == mover else -change
    tree.state[0].root_value_sum += change if tree.nodes[0].mover == mover else -change


@kernel
def is_lost(tree: Tree, node: int, edge: int) -> bool:
    """Return whether `edge` is a proven loss for the side that chooses it at `node`, in a tree that solves.

    The value of such an edge is exactly -1, and most edges are ruled out by that test alone.
    """
    return bool(tree.edges[edge].value_sum == -tree.edges[edge].visits and edge_proof(tree, node, edge) < 0)


@kernel
def visits_without_losses(tree: Tree, visits: Any) -> float:
    """Write the visits of the root's edges to `visits` (int32[n]), but 0 for proven losses. If no other edge
    has visits, the one with the largest prior gets one. Returns the root's value without the visits of proven
    losses. The root is not proven, so some edge is not."""
    first, count = tree.nodes[0].first_edge, tree.state[0].root_visits
    value_sum, untried = float(tree.state[0].root_value_sum), -1
    for i in range(len(visits)):
        visits[i] = tree.edges[first + i].visits
        if visits[i] > 0 and is_lost(tree, 0, first + i):
            value_sum += visits[i]  # each of them was worth -1
            count -= visits[i]
            visits[i] = 0
        elif visits[i] == 0 and (untried < 0 or tree.edges[first + i].prior > tree.edges[untried].prior):
            untried = first + i
    if not visits.any():
        visits[untried - first] = 1
    return value_sum / count


@kernel
def proven_win_edge(tree: Tree) -> int:
    """Return the root's edge with the quickest proven win among the edges that are not BLOCKED, or -1."""
    best, quickest = -1, 0
    first = tree.nodes[0].first_edge
    for edge in range(first, first + tree.nodes[0].edge_count):
        known = edge_proof(tree, 0, edge)
        if known > 0 and tree.edges[edge].in_flight != BLOCKED and (best < 0 or known < quickest):
            best, quickest = edge, known
    return best


@kernel
def expand_win(tree: Tree, actions: Any, mover: int) -> int:
    """Append a node whose side to move, `mover`, wins at once with any of `actions` (uint16[n]). The node has
    only these edges. Returns the node."""
    node = expand(tree, actions, actions, mover)  # priors are set below
    first = tree.nodes[node].first_edge
    for edge in range(first, first + len(actions)):
        tree.edges[edge].prior = 1.0 / len(actions)
        tree.edges[edge].child = TERMINAL
        tree.edges[edge].visits = 1
        tree.edges[edge].value_sum = 1.0
    tree.nodes[node].proof = 1
    return node


# ---- The root, before and after a search ------------------------------------------------------------


@kernel
def expand_root(tree: Tree, history: Any, actions: Any, priors: Any, value: float) -> bool:
    """Expand the root with its evaluation, `priors [n]` over its legal actions. Returns False if the number
    of legal actions is not n. `history` uint64[max_plies + 2, state_words]; `actions` uint16[max_legal] is
    scratch."""
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
    network's own value, which is the root's value_sum minus that of its edges."""
    first, behind = tree.nodes[0].first_edge, 0.0
    for i in range(tree.nodes[0].edge_count):
        actions[i] = tree.edges[first + i].action
        priors[i] = tree.edges[first + i].prior
        behind += float(tree.edges[first + i].value_sum)
    return min(1.0, max(-1.0, float(tree.state[0].root_value_sum) - behind))


@kernel
def immediate_wins(tree: Tree, history: Any, replies: Any, found: Any) -> int:
    """Write the root's edges that win at once to `found` (int32[max_legal]). Returns their number. `history`
    uint64[max_plies + 2, state_words]; `replies` uint16[2, max_legal] is scratch."""
    first, edges = tree.nodes[0].first_edge, tree.nodes[0].edge_count
    # If the game is won already, all edges win: the priors say which of them are good for anything else.
    if end_reason(history, tree.state[0].positions, edges, tree.state[0].positions - 1) != 0:
        return 0
    for i in range(edges):
        replies[0, i] = tree.edges[first + i].action
    wins = wins_among(history, tree.state[0].positions, replies[0, :edges], replies[0], replies[1])
    count = 0
    for edge in range(first, first + edges):
        # The winning actions are in the order of the edges.
        if count < wins and tree.edges[edge].action == replies[0, count]:
            found[count] = edge
            count += 1
    return count


@kernel
def view_and_wins(
    tree: Tree, history: Any, replies: Any, actions: Any, priors: Any, found: Any
) -> tuple[float, int]:
    """Do `immediate_wins` and `view_of_net` in one call, because a call from Python takes longer than either.
    The arrays are theirs. Returns (the network's value, number of edges that win at once)."""
    wins = immediate_wins(tree, history, replies, found)
    return view_of_net(tree, actions, priors), wins


@kernel
def visit_win(tree: Tree, history: Any, replies: Any, found: Any, path: Any) -> None:
    """Visit the first edge of the root that wins at once and is not BLOCKED, as a simulation through it
    would, unless it was visited before. The arrays are those of `immediate_wins`; `path`: PATH_EDGE[1] or
    longer, scratch."""
    for i in range(immediate_wins(tree, history, replies, found)):
        edge = found[i]
        if tree.edges[edge].in_flight != BLOCKED:
            if tree.edges[edge].child == UNEXPANDED:
                path[0].node = 0
                path[0].edge = edge
                tree.edges[edge].child = TERMINAL
                backup(tree, path, 1, 1.0, tree.nodes[0].mover)
                prove(tree, path, 1)
            return


@kernel
def forget_simulations(tree: Tree) -> int:
    """Reset the root to the state after its evaluation, by subtracting the value_sum of its edges from its
    own. If the root was proven, its value_sum no longer contains the evaluation; the difference is then
    clipped to [-1, 1]. Returns how many of its edges are not BLOCKED."""
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


# ---- Playing a move ---------------------------------------------------------------------------------


@kernel
def advance(tree: Tree, history: Any, new_index: Any, legal: Any, action: int, keep: bool) -> int:
    """Play `action`, and keep its subtree if `keep` is set. Returns the end reason of the new position.

    `history` uint64[max_plies + 2, state_words]; `new_index` int32[node_room] and `legal` uint16[max_legal]
    are scratch.
    """
    state = tree.state[0]
    # Read the edge's sums now: the root's edges are gone once the tree is compacted.
    kept = UNEXPANDED
    if state.nodes > 0 and keep:
        first = tree.nodes[0].first_edge
        for edge in range(first, first + tree.nodes[0].edge_count):
            if tree.edges[edge].action == action and tree.edges[edge].child >= 0:
                kept = tree.edges[edge].child
                state.root_visits = tree.edges[edge].visits
                state.root_value_sum = value_sum_of(tree, 0, edge, kept)
    play(history[state.positions - 1], action, history[state.positions])
    state.positions += 1
    state.remaining = 0
    if kept == UNEXPANDED:
        state.nodes = 0
        state.edges = 0
    else:
        compact(tree, new_index, kept)
        forget_old_cuts(tree, new_index)
    count = legal_actions(history, state.positions, legal)
    if state.nodes > 0 and tree.nodes[0].edge_count != count:  # made by `expand_win`: edges are missing
        state.nodes = 0
        state.edges = 0
    return end_reason(history, state.positions, count, NO_ROOT)


@kernel
def compact(tree: Tree, new_index: Any, root: int) -> None:
    """Keep only the subtree under node `root`, which becomes node 0. Works in place.

    Children come after their parents, so one pass in order finds all reachable nodes. Each node and run of
    edges moves to the left or stays where it is. `new_index` int32[node_room] is scratch.
    """
    state = tree.state[0]
    used_nodes, used_edges = 0, 0
    for node in range(state.nodes):
        new_index[node] = UNEXPANDED
    new_index[root] = 0
    for node in range(root, state.nodes):
        if new_index[node] == UNEXPANDED:
            continue
        new_index[node] = used_nodes
        first, count = tree.nodes[node].first_edge, tree.nodes[node].edge_count
        tree.nodes[used_nodes] = tree.nodes[node]
        tree.nodes[used_nodes].first_edge = used_edges
        for i in range(count):
            tree.edges[used_edges + i] = tree.edges[first + i]
            child = tree.edges[first + i].child
            if child >= 0:
                new_index[child] = 0  # reachable; the pass sets its index later
        used_nodes += 1
        used_edges += count
    state.nodes = used_nodes
    state.edges = used_edges
    for edge in range(used_edges):  # point the moved edges at the moved nodes
        if tree.edges[edge].child >= 0:
            tree.edges[edge].child = new_index[tree.edges[edge].child]


@kernel
def forget_old_cuts(tree: Tree, parents: Any) -> None:
    """Take back all visits of edges that were CUT because of a position that is now before the root. They
    will be searched anew. `parents` int32[node_room] is scratch."""
    state = tree.state[0]
    for node in range(state.nodes):
        first = tree.nodes[node].first_edge
        for edge in range(first, first + tree.nodes[node].edge_count):
            if tree.edges[edge].child >= 0:
                parents[tree.edges[edge].child] = node
    for node in range(state.nodes):
        first = tree.nodes[node].first_edge
        for edge in range(first, first + tree.nodes[node].edge_count):
            child = tree.edges[edge].child
            if child <= CUT and CUT - child < state.positions - 1:
                take_back(tree, parents, node, edge)
                tree.edges[edge].child = UNEXPANDED


@kernel
def take_back(tree: Tree, parents: Any, node: int, edge: int) -> None:
    """Remove all visits of `edge`, which leads to no node, from the edge itself and from everything above its
    `node`. `parents` int32[node_room]: the node above each node."""
    state, visits, value = tree.state[0], tree.edges[edge].visits, float(tree.edges[edge].value_sum)
    tree.edges[edge].visits = 0
    tree.edges[edge].value_sum = 0.0
    mover = tree.nodes[node].mover
    while node > 0:
        if state.solves and tree.nodes[node].proof != 0:  # above it, all visits count as the proven result
            value = float(visits) if tree.nodes[node].proof > 0 else -float(visits)
            mover = tree.nodes[node].mover
        above = parents[node]
        up = tree.nodes[above].first_edge
        while tree.edges[up].child != node:
            up += 1
        tree.edges[up].visits -= visits
        tree.edges[up].value_sum -= value if tree.nodes[above].mover == mover else -value
        node = above
    state.root_visits -= visits
    state.root_value_sum -= value if tree.nodes[0].mover == mover else -value


# ---- Random numbers ---------------------------------------------------------------------------------
# SplitMix64 (Steele et al., "Fast splittable pseudorandom number generators", 2014): its whole state is one
# word of each tree.


RANDOM_STEP = np.uint64(0x9E3779B97F4A7C15)
MIX_1, MIX_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
S30, S27, S31, S11 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11)
TO_UNIT = 1.0 / (1 << 53)
"""Scales 53 bits to the unit interval. A float64 holds 53 bits exactly, so the lowest 11 bits of a word are
dropped."""


@kernel
def random_word(state: Any) -> Any:
    """Return the next uint64 of `state.random` (`state`: STATE)."""
    state.random = state.random + RANDOM_STEP
    x = state.random
    x = (x ^ (x >> S30)) * MIX_1
    x = (x ^ (x >> S27)) * MIX_2
    return x ^ (x >> S31)


@kernel
def random_unit(state: Any) -> float:
    """Return a uniform random number in (0, 1], from `state` (STATE). It is never 0, so its logarithm
    exists."""
    return (float(random_word(state) >> S11) + 1.0) * TO_UNIT


@kernel
def random_normal(state: Any) -> float:
    """Return a random number of the standard normal distribution, from `state` (STATE), by the Box-Muller
    transform."""
    return math.sqrt(-2.0 * math.log(random_unit(state))) * math.cos(2.0 * math.pi * random_unit(state))
