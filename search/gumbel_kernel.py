"""Search with Gumbel AlphaZero's choices: sequential halving at the root, the improved policy below it.

Danihelka et al., "Policy improvement by planning with Gumbel" (ICLR 2022). Plain functions like those of
`search.kernel`, which they are compiled together with (`search.gumbel_tree`); they take the place of
`best_edge`, `descend`, `select` and `resume`. `tests/search/naive_gumbel.py` is the slow twin.

Values lie in [-1, 1] and are not rescaled: sigma(q) = (c_visit + most visits of an edge) * c_scale * q.
An edge without visits takes the mixed value of its node (appendix D of the paper).
"""
# mypy: disable-error-code="name-defined,no-untyped-def,no-untyped-call"
# ruff: noqa: F821

from __future__ import annotations


def complete_values(control, edges, first, count, value_sum):
    """(value of an edge without visits, what sigma multiplies values by, visits of all edges).

    `value_sum` holds the node's own evaluation and all that came from its edges, for its side to move;
    so the evaluation is what is left without the edges.
    """
    visits, most = 0, 0
    prior, weighted, behind = 0.0, 0.0, 0.0
    for e in range(first, first + count):
        n = edges[e].visits
        if n > 0:
            p = max(float(edges[e].prior), PRIOR_FLOOR)
            visits += n
            most = max(most, n)
            prior += p
            weighted += p * float(edges[e].value_sum) / n
            behind += float(edges[e].value_sum)
    scale = (control.gumbel_c_visit + most) * control.gumbel_c_scale
    own = value_sum - behind
    if visits == 0:
        return own, scale, visits
    return (own + visits * weighted / prior) / (1 + visits), scale, visits


def best_root_edge(control, edges, noise, schedule, first, count):
    """Of the edges with as many visits as the schedule says: the largest noise + log prior + sigma(q)."""
    unvisited, scale, visits = complete_values(control, edges, first, count, float(control.root_value_sum))
    considered = schedule[visits]
    best, best_score = -1, -math.inf
    for i in range(count):
        n = edges[first + i].visits
        if n != considered:
            continue
        q = float(edges[first + i].value_sum) / n if n > 0 else unvisited
        score = noise[i] + math.log(max(float(edges[first + i].prior), PRIOR_FLOOR)) + scale * q
        if best < 0 or score > best_score:
            best, best_score = first + i, score
    return best


def best_improved_edge(control, edges, first, count, value_sum):
    """The edge whose share of the visits lags most behind its share of the improved policy.

    The improved policy is softmax(log prior + sigma(completed q)); no chance is involved.
    """
    unvisited, scale, visits = complete_values(control, edges, first, count, value_sum)
    largest = -math.inf
    for e in range(first, first + count):
        n = edges[e].visits
        largest = max(largest, float(edges[e].value_sum) / n if n > 0 else unvisited)
    weight_unvisited = math.exp(scale * (unvisited - largest))
    total = 0.0
    for e in range(first, first + count):
        n = edges[e].visits
        weight = math.exp(scale * (float(edges[e].value_sum) / n - largest)) if n > 0 else weight_unvisited
        total += weight * max(float(edges[e].prior), PRIOR_FLOOR)
    best, best_score = first, -math.inf
    for e in range(first, first + count):
        n = edges[e].visits
        weight = math.exp(scale * (float(edges[e].value_sum) / n - largest)) if n > 0 else weight_unvisited
        score = weight * max(float(edges[e].prior), PRIOR_FLOOR) / total - n / (1.0 + visits)
        if score > best_score:
            best, best_score = e, score
    return best


def descend_gumbel(control, nodes, edges, path, line, actions, words, noise, schedule):
    """One simulation from the root. True: it waits for an evaluation; False: it ended in a terminal."""
    depth, positions = 0, control.positions
    edge = best_root_edge(control, edges, noise, schedule, nodes[0].first_edge, nodes[0].edge_count)
    while True:
        path[depth] = edge
        depth += 1
        play(line[positions - 1], edges[edge].action, line[positions])
        positions += 1
        node = edges[edge].child
        if node < 0:
            break
        value_sum = -float(edges[edge].value_sum)
        edge = best_improved_edge(control, edges, nodes[node].first_edge, nodes[node].edge_count, value_sum)
    return arrive(control, edges, path, depth, line, positions, actions, words)


def select_gumbel(tree, nodes, edges, path, line, actions, words, noise, schedule):
    """Run simulations until one needs an evaluation; its number of legal actions, or DONE or FULL."""
    control = tree[0]
    while control.remaining > 0:
        if control.nodes == len(nodes) or control.edges + control.max_legal > len(edges):
            return FULL
        control.remaining -= 1
        if descend_gumbel(control, nodes, edges, path, line, actions, words, noise, schedule):
            return control.leaf_count
    return DONE


def resume_gumbel(tree, nodes, edges, path, line, actions, words, noise, schedule, priors, value):
    """Give the waiting leaf its evaluation (expand, backup), then select the next one; or MISFIT."""
    control = tree[0]
    if len(priors) != control.leaf_count:
        return MISFIT
    edges[path[control.depth - 1]].child = expand(control, nodes, edges, actions, priors)
    backup(control, edges, path, control.depth, value)
    return select_gumbel(tree, nodes, edges, path, line, actions, words, noise, schedule)


def score_root(tree, nodes, edges, scores, values):
    """Write log prior + sigma(completed q), and the completed q, of every edge of the root."""
    control = tree[0]
    first, count = nodes[0].first_edge, nodes[0].edge_count
    unvisited, scale, _ = complete_values(control, edges, first, count, float(control.root_value_sum))
    for i in range(count):
        n = edges[first + i].visits
        values[i] = float(edges[first + i].value_sum) / n if n > 0 else unvisited
        scores[i] = math.log(max(float(edges[first + i].prior), PRIOR_FLOOR)) + scale * values[i]


GUMBEL_KERNELS = {
    function.__name__: function
    for function in (
        complete_values,
        best_root_edge,
        best_improved_edge,
        descend_gumbel,
        select_gumbel,
        resume_gumbel,
        score_root,
    )
}
"""Every function above, for `games.jit.specialise`, behind those of `search.kernel`."""
