"""Thompson sampling: every edge has a posterior over its value, and the edge with the largest sample is
taken.

Thompson, "On the likelihood that one unknown probability exceeds another" (Biometrika 1933); in game trees:
Bai et al., "Bayesian mixture modelling and inference based Thompson sampling in Monte-Carlo tree search"
(NIPS 2013). The policy target is the share of simulations, as with PUCT. `tests/search/test_thompson.py` has
a slow reference implementation.

The posterior is normal. Before any visit its mean m follows from the network: the node's own value plus
PRIOR_SCALE * (log prior - mean log prior under the prior). So softmax(m / PRIOR_SCALE) is the prior. This
mean counts as PRIOR_VISITS visits. A simulation's value is assumed to have the standard deviation
VALUE_SPREAD. So after n visits with value_sum W, the mean is (PRIOR_VISITS * m + W) / (PRIOR_VISITS + n), and
its standard deviation is VALUE_SPREAD / sqrt(PRIOR_VISITS + n). No noise is added at the root, because
sampling already explores. Leaves in flight narrow the posterior as visits do.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from azselfplay.games.jit import kernel
from azselfplay.search.layout import BLOCKED, Tree
from azselfplay.search.result import result_of_visits
from azselfplay.search.tree_kernel import random_normal, value_sum_of
from protocol.records import PRIOR_FLOOR
from protocol.settings import SelfPlaySettings

if TYPE_CHECKING:
    from azselfplay.search.tree import SearchTree

FIELDS = ("moves.final_move", "search.solver", "search.look_ahead")
LEARNS_SHARES = False
IS_RANDOM = True
KEEPS_SUBTREE = True

PRIOR_SCALE = 0.1
"""In units of value: a tenfold prior raises the prior mean by 0.23."""
PRIOR_VISITS = 1.0
VALUE_SPREAD = 0.4
"""Standard deviation of one simulation's value, in units of value."""
MOST_SUMMED = 60_000
"""If a node has more visits, its mean replaces its own evaluation, which can no longer be recovered from
float32 sums: an evaluation of 0.25 becomes 0.24 after 100,000 visits, and nonsense after a million. Self-play
has fewer visits."""


def parameters(settings: SelfPlaySettings) -> tuple[float, ...]:  # noqa: ARG001
    """Return no parameters: this selection uses constants."""
    return ()


def plan_room(settings: SelfPlaySettings) -> int:  # noqa: ARG001
    """Return the number of entries of `plan` that a search needs."""
    return 0


def begin(tree: SearchTree) -> None:
    """Do nothing: no preparation is needed."""


result = result_of_visits
"""The policy target is the visits of the root."""


@kernel
def largest_sample(tree: Tree, node: int, value_sum: float) -> int:
    """Return the edge of `node` with the largest sample; ties go to the lowest index. `value_sum`: sum of the
    node's own evaluation and all values from its edges, for its side to move."""
    state, edges = tree.state[0], tree.edges
    first = tree.nodes[node].first_edge
    last = first + tree.nodes[node].edge_count
    own, mean_log, visits = value_sum, 0.0, 1
    for edge in range(first, last):
        own -= float(edges[edge].value_sum)
        visits += edges[edge].visits
        prior = max(float(edges[edge].prior), PRIOR_FLOOR)
        mean_log += prior * math.log(prior)
    if visits > MOST_SUMMED:
        own = value_sum / visits
    best, best_sample = -1, -math.inf
    for edge in range(first, last):
        in_flight = int(edges[edge].in_flight)
        if in_flight == BLOCKED:
            continue
        log_prior = math.log(max(float(edges[edge].prior), PRIOR_FLOOR))
        before = min(1.0, max(-1.0, own + PRIOR_SCALE * (log_prior - mean_log)))
        seen = PRIOR_VISITS + edges[edge].visits
        mean = (PRIOR_VISITS * before + float(edges[edge].value_sum)) / seen
        sample = mean + random_normal(state) * VALUE_SPREAD / math.sqrt(seen + in_flight)
        if best < 0 or sample > best_sample:
            best, best_sample = edge, sample
    return best


@kernel
def choose_root(tree: Tree) -> int:
    return largest_sample(tree, 0, float(tree.state[0].root_value_sum))


@kernel
def choose_below(tree: Tree, parent: int, edge: int, node: int) -> int:
    return largest_sample(tree, node, value_sum_of(tree, parent, edge, node))
