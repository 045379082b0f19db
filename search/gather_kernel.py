"""Several leaves of ONE tree in flight, for an engine that has a single position to think about.

Plain functions like those of `search.kernel`, which they are compiled together with (`search.gathered`).
What is in flight is counted in an array beside the edges: visits and value sums hold finished simulations
only, so a tree may be looked at (score, line of play) at any time, and giving a leaf up costs nothing.

An edge with `n` leaves in flight is judged as if it had `n` more visits whose value was its mean less
`virtual_loss`. With 0 that is WU-UCT (arXiv 1810.11755); with 1 about the virtual loss of AlphaGo.

Beside each node stands what is proven about it: `d > 0` the side to move wins in `d` plies, `d < 0` it
loses in `-d`, 0 nothing. Proofs change neither visits nor values; they choose the move and end the search.
"""
# mypy: disable-error-code="name-defined,no-untyped-def,no-untyped-call"
# ruff: noqa: F821

from __future__ import annotations

BLOCKED = 0xFFFF
"""In the array of leaves in flight: an edge of the root that this search must not look at."""

WAITS, ENDED, COLLIDED = 0, 1, 2
"""How a walk ends: at a leaf to evaluate, at the end of a game, at a leaf that is in flight already."""


def best_free_edge(
    control, edges, in_flight, first, count, parent_visits, parent_value, fpu_reduction, virtual_loss
):
    """As `best_edge`, with the leaves in flight counted in and blocked edges left out."""
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
    best, best_score = -1, -math.inf
    for e in range(first, first + count):
        flying = int(in_flight[e])
        if flying == BLOCKED:
            continue
        visits = edges[e].visits
        q = float(edges[e].value_sum) / visits if visits > 0 else unvisited_value
        if flying > 0:
            q -= virtual_loss * flying / (visits + flying)
        divisor = math.sqrt(1.0 + visits + flying) if is_ucb else 1.0 + visits + flying
        score = q + exploration * edges[e].prior / divisor
        if best < 0 or score > best_score:  # the first one even if its score is NaN: -1 is no edge
            best, best_score = e, score
    return best


def walk_down(tree, nodes, edges, in_flight, proofs, path, walk, line, actions, words, flying, virtual_loss):
    """One simulation from the root, as `descend`; `flying` leaves are in flight. How it ended."""
    control = tree[0]
    node, depth, positions = 0, 0, control.positions
    visits = control.root_visits + flying
    value = float(control.root_value_sum) / control.root_visits
    fpu_reduction = control.fpu_reduction_root
    while True:
        first, count = nodes[node].first_edge, nodes[node].edge_count
        edge = best_free_edge(
            control, edges, in_flight, first, count, visits, value, fpu_reduction, virtual_loss
        )
        path[depth] = edge
        walk[depth] = node
        depth += 1
        play(line[positions - 1], edges[edge].action, line[positions])
        positions += 1
        visits = edges[edge].visits + (0 if in_flight[edge] == BLOCKED else int(in_flight[edge]))
        node = edges[edge].child
        if node < 0:
            break
        value = -float(edges[edge].value_sum) / edges[edge].visits
        fpu_reduction = control.fpu_reduction
    control.depth = depth
    if node == TERMINAL:
        backup(control, edges, path, depth, -float(edges[edge].value_sum) / edges[edge].visits)
        return ENDED
    if in_flight[edge] > 0:
        return COLLIDED
    is_over, value = open_leaf(control, line, positions, actions, words)
    if not is_over:
        return WAITS
    edges[edge].child = TERMINAL
    backup(control, edges, path, depth, value)
    if value != 0.0:
        prove(nodes, edges, proofs, walk, depth)
    return ENDED


def edge_proof(edges, proofs, edge):
    """What is proven for the side that chooses `edge`: plies to its win, minus plies to its loss, or 0."""
    child = edges[edge].child
    if child == UNEXPANDED:
        return 0
    if child == TERMINAL:
        value = float(edges[edge].value_sum) / edges[edge].visits
        return 1 if value > 0.5 else (-1 if value < -0.5 else 0)
    known = int(proofs[child])
    if known == 0:
        return 0
    return 1 - known if known < 0 else -1 - known


def node_proof(nodes, edges, proofs, node):
    """The quickest proven win, or the slowest loss if every edge is a proven loss, or 0."""
    win, loss, open_edges = 0, 0, 0
    first = nodes[node].first_edge
    for e in range(first, first + nodes[node].edge_count):
        known = edge_proof(edges, proofs, e)
        if known > 0 and (win == 0 or known < win):
            win = known
        elif known < 0:
            loss = min(loss, known)
        elif known == 0:
            open_edges += 1
    if win > 0:
        return win
    return 0 if open_edges > 0 else loss


def prove(nodes, edges, proofs, walk, depth):
    """A game's end was found behind the nodes of `walk`: carry what follows from it towards the root."""
    for i in range(depth - 1, -1, -1):
        known = node_proof(nodes, edges, proofs, walk[i])
        if known == proofs[walk[i]]:
            return
        proofs[walk[i]] = known


def gather_leaves(
    tree,
    nodes,
    edges,
    in_flight,
    proofs,
    slots,
    paths,
    walk,
    line,
    actions,
    words,
    figures,
    wanted,
    most,
    loss,
):
    """Walk until `wanted` leaves wait, one a slot, or `most` walks were made; how many wait.

    Stops early at a leaf that is in flight already, or when the arrays have no room for what waits.
    figures[0] deepest walk, figures[1] sum of depths, figures[2] 1 if there was no room.
    """
    control = tree[0]
    waiting, walks = 0, 0
    while waiting < wanted and control.remaining > 0 and walks < most:
        room = len(edges) - control.edges - (waiting + 1) * control.max_legal
        if control.nodes + waiting >= len(nodes) or room < 0:
            figures[2] = 1
            break
        walks += 1
        end = walk_down(
            tree,
            nodes,
            edges,
            in_flight,
            proofs,
            paths[waiting],
            walk,
            line,
            actions[waiting],
            words[waiting],
            waiting,
            loss,
        )
        if end == COLLIDED:
            break
        control.remaining -= 1
        figures[0] = max(figures[0], control.depth)
        figures[1] += control.depth
        if end == WAITS:
            slots[waiting].depth = control.depth
            slots[waiting].count = control.leaf_count
            mark(in_flight, paths[waiting], control.depth, 1)
            waiting += 1
    return waiting


def mark(in_flight, path, depth, change):
    """Add `change` leaves in flight to every edge of a path."""
    for i in range(depth):
        in_flight[path[i]] += change


def settle(tree, nodes, edges, in_flight, proofs, slots, paths, actions, slot, priors, value):
    """Give a waiting leaf its evaluation: it is in flight no more, expanded and backed up."""
    control = tree[0]
    depth = slots[slot].depth
    mark(in_flight, paths[slot], depth, -1)
    control.leaf_count = slots[slot].count
    node = expand(control, nodes, edges, actions[slot], priors)
    proofs[node] = 0
    edges[paths[slot, depth - 1]].child = node
    backup(control, edges, paths[slot], depth, value)


def give_up(tree, in_flight, slots, paths, waiting):
    """Nothing will be heard of the waiting leaves: their simulations were never made."""
    for slot in range(waiting):
        mark(in_flight, paths[slot], slots[slot].depth, -1)
    tree[0].remaining += waiting


def take_win(tree, nodes, edges, proofs, path, walk, edge):
    """Make the root edge that wins at once (`winning_edge`) known, as one simulation of it does."""
    if edges[edge].child == UNEXPANDED:
        path[0], walk[0] = edge, 0
        edges[edge].child = TERMINAL
        backup(tree[0], edges, path, 1, -1.0)
        prove(nodes, edges, proofs, walk, 1)


def move_proofs(proofs, new_index, nodes):
    """After `compact`: what was proven about the `nodes` there were, at their new places."""
    for node in range(nodes):
        if new_index[node] >= 0:
            proofs[new_index[node]] = proofs[node]


GATHER_KERNELS = {
    function.__name__: function
    for function in (
        best_free_edge,
        edge_proof,
        node_proof,
        prove,
        walk_down,
        mark,
        gather_leaves,
        settle,
        give_up,
        take_win,
        move_proofs,
    )
}
"""Every function above, for `games.jit.specialise`, behind those of `search.kernel`."""
