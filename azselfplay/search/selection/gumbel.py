"""Gumbel AlphaZero: sequential halving at the root, the improved policy below it.

Danihelka et al., "Policy improvement by planning with Gumbel" (ICLR 2022). Every search begins with a fresh
root: sequential halving counts visits from 0, and a kept subtree would bring visits that sequential halving
did not assign. A search costs `simulations` + 1 evaluations. `tests/search/test_gumbel.py` has a slow
reference implementation.

Values lie in [-1, 1] and are not rescaled: sigma(q) = (c_visit + most visits of an edge) * c_scale * q. An
edge without visits takes the mixed value of its node (appendix D of the paper).
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from azselfplay.games.jit import kernel
from azselfplay.search.layout import BLOCKED, Tree
from azselfplay.search.result import RootScores, SearchResult, listed
from azselfplay.search.tree_kernel import is_lost, value_sum_of
from protocol.records import PRIOR_FLOOR, SHARES
from protocol.settings import SelfPlaySettings

if TYPE_CHECKING:
    from azselfplay.search.tree import SearchTree

FIELDS = ("gumbel.considered", "gumbel.c_scale", "search.solver", "search.look_ahead")
LEARNS_SHARES = True
IS_RANDOM = False
KEEPS_SUBTREE = False
C_VISIT, C_SCALE = range(2)
"""Indices of the parameters."""


def parameters(settings: SelfPlaySettings) -> tuple[float, ...]:
    return 50.0, settings.gumbel.c_scale  # the paper's c_visit


def plan_room(settings: SelfPlaySettings) -> int:
    """Return the size of the schedule of sequential halving: one entry per simulation."""
    return settings.search.simulations


def begin(tree: SearchTree) -> None:
    """Draw Gumbel noise for the root, unless noise is off, and set the schedule."""
    settings, count = tree.settings, tree.root_edge_count
    allowed = tree.forget_simulations()
    has_noise = settings.noise.root_noise > 0
    tree.arrays.root_noise[:count] = tree.rng.gumbel(size=count) if has_noise else 0.0
    simulations = tree.remaining
    tree.arrays.plan[:simulations] = halving_schedule(min(settings.gumbel.considered, allowed), simulations)


@lru_cache(maxsize=1024)
def halving_schedule(considered: int, simulations: int) -> npt.NDArray[np.int32]:
    """Return [simulations]: for each simulation, the number of visits that the root action it takes must
    already have.

    Sequential halving (Karnin et al. 2013) as a list: in each of ceil(log2(considered)) phases every
    considered action gets the same number of visits, then the better half continues; two remain to the end.
    The list has the form used by mctx, the paper's own library.
    """
    if considered <= 1:
        schedule = np.arange(simulations, dtype=np.int32)
    else:
        phases = math.ceil(math.log2(considered))
        visits: list[int] = []
        seen, left = 0, considered
        while len(visits) < simulations:
            for _ in range(max(1, simulations // (phases * left))):
                visits += [seen] * left
                seen += 1
            left = max(2, left // 2)
        schedule = np.array(visits[:simulations], dtype=np.int32)
    schedule.flags.writeable = False
    return schedule


def result(tree: SearchTree) -> SearchResult:
    """Return the improved policy and its value."""
    root, shares, value = root_scores(tree)
    arrays = listed(root.actions, shares)
    if tree.settings.search.solver and tree.proof:
        value = tree.root_value()
    return SearchResult(*arrays, value, is_improved=True, scores=root)


def root_scores(tree: SearchTree) -> tuple[RootScores, npt.NDArray[np.int32], float]:
    """Return (what this search knows about every legal action, int32[n] the improved policy as shares that
    sum to SHARES, the value of that policy)."""
    count = tree.root_edge_count
    actions, visits = np.empty(count, np.uint16), np.empty((2, count), np.int32)
    figures = np.empty((4, count))
    value = tree.forest.kernels.score_root(tree.arrays, actions, visits, figures)
    return RootScores(actions, visits[0], *figures), visits[1], value


# ---- Kernels ----------------------------------------------------------------------------------------


@kernel
def choose_root(tree: Tree) -> int:
    """Return the edge with the largest noise + log prior + sigma(q) among those whose visits are what the
    schedule says.

    If there is none, take edges with fewer visits, and if there is none of those either, any that is not
    BLOCKED. In a tree that solves, proven losses are considered last, so that moves which were not tried
    take their place.
    """
    state, edges = tree.state[0], tree.edges
    unvisited, scale, visits = complete_values(tree, 0, float(state.root_value_sum))
    considered_visits = tree.plan[min(visits + state.in_flight, len(tree.plan) - 1)]
    first = tree.nodes[0].first_edge
    best, best_rank, best_score = -1, -1, -math.inf
    for i in range(tree.nodes[0].edge_count):
        n, in_flight = edges[first + i].visits, int(edges[first + i].in_flight)
        if in_flight == BLOCKED:
            continue
        rank = 3 if n + in_flight == considered_visits else 2 if n + in_flight < considered_visits else 1
        if state.solves and n > 0 and is_lost(tree, 0, first + i):
            rank = 0
        if rank < best_rank:
            continue
        q = float(edges[first + i].value_sum) / n if n > 0 else unvisited
        score = tree.root_noise[i] + math.log(max(float(edges[first + i].prior), PRIOR_FLOOR)) + scale * q
        if rank > best_rank or score > best_score:
            best, best_rank, best_score = first + i, rank, score
    return best


@kernel
def choose_below(tree: Tree, parent: int, edge: int, node: int) -> int:
    """Return the edge whose share of the visits is furthest below its share of the improved policy.

    The improved policy is softmax(log prior + sigma(completed q)); no randomness is involved.
    """
    edges = tree.edges
    unvisited, scale, visits = complete_values(tree, node, value_sum_of(tree, parent, edge, node))
    visits += tree.edges[edge].in_flight
    first = tree.nodes[node].first_edge
    last = first + tree.nodes[node].edge_count
    # A softmax in three passes. The largest value is subtracted so that no exponential overflows.
    largest = -math.inf
    for e in range(first, last):
        n = edges[e].visits
        largest = max(largest, float(edges[e].value_sum) / n if n > 0 else unvisited)
    weight_unvisited = math.exp(scale * (unvisited - largest))
    total = 0.0
    for e in range(first, last):
        n = edges[e].visits
        weight = math.exp(scale * (float(edges[e].value_sum) / n - largest)) if n > 0 else weight_unvisited
        total += weight * max(float(edges[e].prior), PRIOR_FLOOR)
    best, best_score = first, -math.inf
    for e in range(first, last):
        n = edges[e].visits
        weight = math.exp(scale * (float(edges[e].value_sum) / n - largest)) if n > 0 else weight_unvisited
        share = (n + edges[e].in_flight) / (1.0 + visits)
        score = weight * max(float(edges[e].prior), PRIOR_FLOOR) / total - share
        if score > best_score:
            best, best_score = e, score
    return best


@kernel
def complete_values(tree: Tree, node: int, value_sum: float) -> tuple[float, float, int]:
    """Return (the mixed value, which stands for q of an edge without visits; the factor of sigma; visits of
    all edges).

    `value_sum` is the sum of the node's own evaluation and all values from its edges, for its side to move.
    So the evaluation is what remains after subtracting the value_sum of the edges. In a tree that solves,
    proven losses say nothing about the moves that were not tried, and count only in the visits.
    """
    visits, lost, most = 0, 0, 0
    prior, weighted, behind = 0.0, 0.0, 0.0
    first = tree.nodes[node].first_edge
    for e in range(first, first + tree.nodes[node].edge_count):
        n = tree.edges[e].visits
        if n == 0:
            continue
        visits += n
        behind += float(tree.edges[e].value_sum)
        if tree.state[0].solves and is_lost(tree, node, e):
            lost += n
            continue
        p = max(float(tree.edges[e].prior), PRIOR_FLOOR)
        most = max(most, n)
        prior += p
        weighted += p * float(tree.edges[e].value_sum) / n
    scale = (tree.parameters[C_VISIT] + most) * tree.parameters[C_SCALE]
    own, counted = value_sum - behind, visits - lost
    if counted == 0:
        return own, scale, visits
    return (own + counted * weighted / prior) / (1 + counted), scale, visits


@kernel
def score_root(tree: Tree, actions: Any, visits: Any, figures: Any) -> float:
    """Write the figures of every root edge: its action to `actions` (uint16[n]); its visits and its share of
    SHARES to `visits` (int32[2, n]); to `figures` (float64[4, n]) its score, which is log prior +
    sigma(completed q), its completed q, its probability in the improved policy, softmax(scores), and its
    noise. Returns the value of that policy.

    If the search solves, a move that is proven to lose has the score -inf while another is not: a large prior
    could otherwise outweigh its value of -1.
    """
    unvisited, scale, _ = complete_values(tree, 0, float(tree.state[0].root_value_sum))
    first, count, largest = tree.nodes[0].first_edge, tree.nodes[0].edge_count, -math.inf
    scores, values, policy, noise = figures[0], figures[1], figures[2], figures[3]
    excludes = tree.state[0].solves and tree.nodes[0].proof == 0
    for i in range(count):
        edge = tree.edges[first + i]
        actions[i], visits[0, i], noise[i] = edge.action, edge.visits, tree.root_noise[i]
        values[i] = float(edge.value_sum) / edge.visits if edge.visits > 0 else unvisited
        scores[i] = math.log(max(float(edge.prior), PRIOR_FLOOR)) + scale * values[i]
        if excludes and edge.visits > 0 and is_lost(tree, 0, first + i):
            scores[i] = -math.inf
        largest = max(largest, scores[i])
    total = 0.0
    for i in range(count):
        policy[i] = math.exp(scores[i] - largest)
        total += policy[i]
    value = 0.0
    for i in range(count):
        policy[i] /= total
        value += policy[i] * values[i]
    share_out(policy, SHARES, visits[1])
    return value


@kernel
def share_out(policy: Any, total: int, shares: Any) -> None:
    """Write integers proportional to `policy` (float64[n], which sums to 1) to `shares` (int32[n]). Their sum
    is exactly `total`: all are rounded down, then the largest remainders get one more. Ties go to the lowest
    index."""
    missing = total
    for i in range(len(shares)):
        shares[i] = int(policy[i] * total)
        missing -= shares[i]
    for _ in range(missing):
        best, most = 0, -1.0
        for i in range(len(shares)):
            if policy[i] * total - shares[i] > most:
                best, most = i, policy[i] * total - shares[i]
        shares[best] += 1
