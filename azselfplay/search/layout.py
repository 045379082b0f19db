"""The arrays of a forest. Every search tree of a process is one slot in them.

Node 0 of a tree is its root, and a node's edges are consecutive. A node is created when its position has been
evaluated. So nodes and edges are stored in the order of expansion, and a child always comes after its parent.
`search.tree_kernel.compact` relies on that.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

NODE = np.dtype(
    [
        ("first_edge", np.int32),
        ("edge_count", np.uint16),
        ("proof", np.int16),  # d > 0: the side to move wins in d plies; d < 0: it loses in -d; 0: unknown
        ("mover", np.int32),  # whose move it is: 0 the first player, 1 the second
    ]
)

EDGE = np.dtype(
    [
        ("prior", np.float32),  # policy of the network, with noise at the root
        ("value_sum", np.float32),  # sum of backed-up values, for the side that chooses this edge
        ("visits", np.int32),
        ("child", np.int32),  # node, or UNEXPANDED, TERMINAL or CUT - index
        ("action", np.uint16),
        ("in_flight", np.uint16),  # leaves below that wait for their evaluation, or BLOCKED
    ]
)

UNEXPANDED = -1
"""`child` of an edge whose position has not been evaluated yet."""
TERMINAL = -2
"""`child` of an edge that ends the game. Its value is value_sum / visits, because every visit finds the same
value."""
CUT = -3
"""Marks an edge after which the game ends only by the rules for a search (`end_reason` with a root). Its
`child` is CUT minus an index in the game's history: that of the newest root for which the game ends there.
Such an edge has a value like a TERMINAL edge, but proves nothing."""
BLOCKED = 0xFFFF
"""`in_flight` of a root edge that this search must not select."""

SETTINGS = np.dtype(
    [
        ("history", np.int32),
        ("max_plies", np.int32),
        ("max_legal", np.int32),
        ("most_leaves", np.int32),  # leaves in flight of one tree
        ("looks_ahead", np.int32),  # whether a leaf's moves are searched for one that wins at once
    ],
    align=True,
)
"""The settings that all trees of a forest share."""

STATE = np.dtype(
    [
        ("random", np.uint64),  # state of `search.tree_kernel.random_word`
        ("depth_sum", np.int64),  # sum of the depths of this search's simulations, in plies
        ("nodes", np.int32),  # nodes in use; 0: the root has not been evaluated
        ("edges", np.int32),  # edges in use
        ("positions", np.int32),  # length of the game's history up to the root
        ("remaining", np.int32),  # simulations still to run in this search
        ("root_visits", np.int32),  # 1 for its own evaluation, and 1 for each simulation
        ("root_value_sum", np.float32),  # for the side to move at the root
        ("in_flight", np.int32),  # leaves in flight
        ("deepest", np.int32),  # depth of this search's deepest simulation, in plies
        ("ticket", np.int64),  # ticket of the newest leaf; each leaf has its own
        ("has_noise", np.int32),  # whether the root's priors contain noise in this search
        ("solves", np.int32),  # whether proven results replace evaluations
    ],
    align=True,
)
"""The state of one tree and its search."""

PENDING = np.dtype(
    [
        ("key_1", np.uint64),  # key of the cache of evaluations
        ("key_2", np.uint64),
        ("depth", np.int32),  # edges on the path to the leaf; 0: the root itself
        ("count", np.int32),  # number of its legal actions
        ("mover", np.int32),
        ("ticket", np.int64),  # 0: no leaf is in flight here
    ],
    align=True,
)
"""A leaf in flight: its evaluation has been requested."""

PATH_EDGE = np.dtype([("node", np.int32), ("edge", np.int32)])
"""An edge on the path from the root to a leaf, and its node."""

REQUEST = np.dtype(
    [
        ("slot", np.int32),
        ("leaf", np.int32),
        ("ticket", np.int64),
        ("command", np.int32),
        ("count", np.int32),
    ],
    align=True,
)
"""A request to the step kernel. It names the tree, and a leaf that is sent; it comes back with the answer."""

ANSWER, SETTLE, SELECT, REQUEST_ROOT = 0, 1, 2, 3
"""`command` of a REQUEST. ANSWER: take the evaluation of this leaf, which has `count` legal actions, and
select the next leaves. SETTLE: only take the evaluation. SELECT: only select leaves, as at the start of a
search. REQUEST_ROOT: request the evaluation of the root."""

ENTRY = np.dtype(
    [
        ("key_1", np.uint64),
        ("key_2", np.uint64),
        ("place", np.int64),  # where its priors begin in `cached_priors`, never wrapped; -1: nothing
        ("value", np.float32),  # for the side to move
        ("count", np.int32),  # legal actions
    ],
    align=True,
)
"""A cached evaluation (`search.cache_kernel`)."""

COUNTERS = np.dtype([("written", np.int64), ("hits", np.int64), ("evaluated", np.int64)])
"""Counted over the whole life of a forest. `written`: priors cached, including overwritten ones. `hits`:
leaves answered from the cache. `evaluated`: leaves that the forest's own network has evaluated."""

Array = npt.NDArray[Any]


class ForestArrays(NamedTuple):
    """All arrays that are passed to kernels. T: slots, L: leaves in flight per tree."""

    settings: Array
    """SETTINGS[1]"""
    parameters: Array
    """float64[P], from `parameters` of the selection."""
    states: Array
    """STATE[T]"""
    nodes: Array
    """NODE[T, node_room]"""
    edges: Array
    """EDGE[T, edge_room]"""
    history: Array
    """uint64[T, max_plies + 2, state_words] positions of each game up to its root, followed by those of the
    simulation in progress."""
    pending: Array
    """PENDING[T, L]"""
    paths: Array
    """PATH_EDGE[T, L, max_plies + 1]"""
    actions: Array
    """uint16[T, L, max_legal] legal actions of the leaves in flight."""
    root_noise: Array
    """float64[T, max_legal] noise of this search, in the order of the root's edges."""
    plan: Array
    """int32[T, plan_room] the selection's plan for this search."""
    replies: Array
    """uint16[2, max_legal] scratch."""
    cache_entries: Array
    """ENTRY[buckets, WAYS]; with 0 buckets nothing is cached."""
    cached_priors: Array
    """float32[room] priors, the newest overwriting the oldest."""
    counters: Array
    """COUNTERS[1]"""
    weights: Array
    """float32[n] weights of a network that evaluates leaves in the step kernel; empty without one."""
    priors: Array
    """float32[max_legal] scratch for that network's output."""
    wdl: Array
    """float32[3] scratch, likewise."""


USED = np.dtype([("rows", np.int64), ("actions", np.int64)])
"""How much of an outbox is in use."""


class Outbox(NamedTuple):
    """Leaves to evaluate, in the form in which they are sent. R rows, W words of features."""

    features: Array
    """uint64[R, W]"""
    counts: Array
    """uint16[R] legal actions of each row."""
    actions: Array
    """uint16[R * max_legal] actions of row 0, then of row 1, ..."""
    requests: Array
    """REQUEST[R] that will bring the answers."""
    used: Array
    """USED[1]"""


class Tree(NamedTuple):
    """The arrays of one slot, as kernels pass them around. It holds few arrays, because each one makes every
    function slower to compile."""

    parameters: Array
    """float64[P]"""
    state: Array
    """STATE[1]"""
    nodes: Array
    """NODE[node_room]"""
    edges: Array
    """EDGE[edge_room]"""
    root_noise: Array
    """float64[max_legal]"""
    plan: Array
    """int32[plan_room]"""


DONE, EXPANDED, IN_FLIGHT = 0, 1, 2
AGAIN, GROW, OUTBOX_FULL, MISFIT, STALE = 3, 4, 5, 6, 7
"""Results of a step. DONE: no simulations are left. EXPANDED: the root is evaluated. IN_FLIGHT: leaves of the
tree are in flight. AGAIN: call again, the work of one call is limited. GROW: nodes or edges need more space.
OUTBOX_FULL: the outbox is full. MISFIT: the number of priors is not that of the legal actions; nothing was
changed. STALE: the leaf of this answer is not in flight."""
