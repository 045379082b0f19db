"""PUCT, AlphaZero's selection (arXiv 1712.01815, pseudocode of the Science paper).

`argmax Q + (log((1 + N + c_base) / c_base) + c_init) * P * sqrt(N) / (1 + n)`; ties go to the lowest index.
Values lie in [-1, 1] here, but in [0, 1] in the pseudocode (which
backs up 1 - v), so its c_init of 1.25 is 2.5 here. Leaves in flight count as visits that do not change the
mean (WU-UCT, arXiv 1810.11755). `tests/search/naive_mcts.py` is a slow reference implementation.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from azselfplay.games.jit import kernel
from azselfplay.search.layout import BLOCKED, Tree
from azselfplay.search.result import result_of_visits
from azselfplay.search.tree_kernel import is_lost, value_sum_of
from protocol.settings import SelfPlaySettings

if TYPE_CHECKING:
    from azselfplay.search.tree import SearchTree

FIELDS = (
    *("search.c_base", "search.c_init", "search.fpu_reduction"),
    *("moves.final_move", "search.solver", "search.look_ahead"),
)
LEARNS_SHARES = False
IS_RANDOM = False
KEEPS_SUBTREE = True

C_BASE, C_INIT, FPU_REDUCTION = range(3)
"""Indices of the parameters."""


def parameters(settings: SelfPlaySettings) -> tuple[float, ...]:
    search = settings.search
    return search.c_base, search.c_init, search.fpu_reduction


def plan_room(settings: SelfPlaySettings) -> int:  # noqa: ARG001
    """Return the number of entries of `ForestArrays.plan` that a search needs."""
    return 0


def begin(tree: SearchTree) -> None:
    """Mix fresh Dirichlet noise into the root's priors, unless noise is off."""
    noise = tree.settings.noise
    if noise.root_noise == 0:
        return
    tree.mix_noise(dirichlet(tree.rng, noise.dirichlet_alpha, tree.root_edge_count), noise.root_noise)


def dirichlet(rng: np.random.Generator, alpha: float, count: int) -> npt.NDArray[np.float64]:
    """Return [count] exactly what `rng.dirichlet` would draw with `count` equal `alpha`, bit for bit, but
    without its checks, which take most of its time."""
    if alpha < 0.1:  # NumPy uses another method for small alphas
        return rng.dirichlet(np.full(count, alpha))
    noise = rng.standard_gamma(alpha, count)
    noise *= 1.0 / noise.cumsum()[-1]
    return noise


result = result_of_visits
"""The policy target is the visits of the root."""


@kernel
def exploration_factor(parameters: Any, parent_visits: int) -> float:
    """Return the factor of the prior in the exploration term, before the division by 1 + n. `parameters`:
    float64[3]."""
    base = parameters[C_BASE]
    c_puct = math.log((1.0 + parent_visits + base) / base) + parameters[C_INIT]
    return float(c_puct * math.sqrt(float(parent_visits)))


@kernel
def best_edge(tree: Tree, node: int, visits: int, value: float, fpu_reduction: float) -> int:
    """Return the edge of `node` that PUCT prefers, given the node's `visits` and its mean `value` for its
    mover. Proven losses are selected only if there is nothing else, and an edge without visits is not valued
    by them."""
    edges, solves = tree.edges, tree.state[0].solves
    exploration = exploration_factor(tree.parameters, visits)
    visited_prior, counted, lost, any_lost = 0.0, 1, 0, -1
    best, best_score, untried, most_explored = -1, -math.inf, -1, -math.inf
    # All edges without visits have the same value, which is known only after the loop.
    first = tree.nodes[node].first_edge
    for edge in range(first, first + tree.nodes[node].edge_count):
        in_flight = int(edges[edge].in_flight)
        n = edges[edge].visits
        counted += n
        if solves and n > 0 and is_lost(tree, node, edge):
            lost += n
            if in_flight != BLOCKED:
                any_lost = edge
            continue
        if n > 0:
            visited_prior += edges[edge].prior
        if in_flight == BLOCKED:
            continue
        explored = exploration * edges[edge].prior / (1.0 + n + in_flight)
        if n > 0:
            score = float(edges[edge].value_sum) / n + explored
            if best < 0 or score > best_score:  # take the first one even if its score is NaN: -1 is no edge
                best, best_score = edge, score
        elif untried < 0 or explored > most_explored:
            untried, most_explored = edge, explored
    if untried >= 0:
        if lost > 0:  # each of these visits was worth -1; leave the node's own evaluation and other moves
            value = (value * counted + lost) / (counted - lost)
        score = value - fpu_reduction * math.sqrt(visited_prior) + most_explored
        if best < 0 or score > best_score or (score == best_score and untried < best):
            best = untried
    return best if best >= 0 else any_lost


@kernel
def choose_root(tree: Tree) -> int:
    """Return the root edge as `best_edge` does; with noise there is no fpu reduction."""
    state, parameters = tree.state[0], tree.parameters
    value = float(state.root_value_sum) / state.root_visits
    reduction = 0.0 if state.has_noise else parameters[FPU_REDUCTION]
    return best_edge(tree, 0, state.root_visits + state.in_flight, value, reduction)


@kernel
def choose_below(tree: Tree, parent: int, edge: int, node: int) -> int:
    visits = tree.edges[edge].visits
    value = value_sum_of(tree, parent, edge, node) / visits
    return best_edge(tree, node, visits + tree.edges[edge].in_flight, value, tree.parameters[FPU_REDUCTION])
