"""Steps many searches at once. One call starts them, and one call takes a whole message of answers.

A step walks from the root to a leaf with the functions of the selection, which are bound like the rules. An
end of a game or a cached position is backed up at once, and the next simulation starts; any other leaf is
written to the outbox, and is in flight from then on. Edges count their leaves in flight separately: visits
and value_sum contain only finished simulations. So a tree may be read at any time, and giving up a leaf costs
nothing. The selection treats leaves in flight as visits that do not change the mean (WU-UCT, arXiv
1810.11755).

One trick makes this fast. A message of answers steps dozens of trees one after the other. None of them is in
the processor's caches, because the trees of 512 games of chess take hundreds of megabytes. But it is known
beforehand which memory of a tree will be read: that along the path of its leaf, and the next selection mostly
follows the same first edges. So while one tree is stepped, the memory of the next three is prefetched in
stages, each of which reads what the previous stage has fetched (`fetch_ahead`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.core.cgutils import get_item_pointer
from numba.extending import intrinsic

from azselfplay.games.jit import Unbound, kernel, signed
from azselfplay.games.stubs import (
    END_VALUES,
    encode,
    end_reason,
    legal_actions,
    play,
    side_to_move,
    wins_among,
)
from azselfplay.search.cache_kernel import NOTHING, find, insert, write_key
from azselfplay.search.layout import (
    AGAIN,
    ANSWER,
    CUT,
    DONE,
    EDGE,
    EXPANDED,
    GROW,
    IN_FLIGHT,
    MISFIT,
    OUTBOX_FULL,
    REQUEST_ROOT,
    SELECT,
    SETTLE,
    STALE,
    TERMINAL,
    ForestArrays,
    Outbox,
    Tree,
)
from azselfplay.search.tree_kernel import backup, expand, expand_win, prove, proven_win_edge

LEAF, ENDED, COLLIDED = 0, 1, 2
"""How a simulation ends: at a leaf to evaluate, at the end of a game, or at a leaf that is already in
flight."""
VISITS_A_LEAF = 32
"""Root visits that a tree needs for each further leaf in flight. In a small tree further leaves would be
selected nearly blindly."""
MOST_WALKS = 512
"""Most simulations in one step, about 10 ms. The limit matters where ends of games, which need no evaluation,
are reached again and again."""
EDGES_A_LINE = 64 // EDGE.itemsize
"""Edges between two prefetches: less than a cache line of 64 bytes."""
ROOT_EDGES = 32
"""Edges of a root that are prefetched before their number is known."""


# ---- Stubs for the selection and the network --------------------------------------------------------
# These are stubs. `search.compiled` binds a selection and a network to them.


def choose_root(tree: Tree) -> int:  # noqa: ARG001
    """Return the root edge that the next simulation takes. At least one is not BLOCKED."""
    raise RuntimeError("this is bound to a selection by azselfplay.games.jit.bind")


def choose_below(tree: Tree, parent: int, edge: int, node: int) -> int:  # noqa: ARG001
    """Return the edge of `node` that the simulation takes next; it reached `node` by `edge` of the node
    `parent`."""
    raise RuntimeError("this is bound to a selection by azselfplay.games.jit.bind")


EVALUATES = Unbound()
"""1 if the forest has a network of its own; 0 if leaves go to the outbox."""


def evaluate(
    weights: Any,  # noqa: ARG001
    packed_features: Any,  # noqa: ARG001
    history: int,  # noqa: ARG001
    actions: Any,  # noqa: ARG001
    count: int,  # noqa: ARG001
    priors: Any,  # noqa: ARG001
    wdl: Any,  # noqa: ARG001
) -> None:
    """Write `priors` float32[count] of the legal `actions` uint16[count] and `wdl` float32[3] for the leaf
    with these `packed_features` uint64[feature_words]."""
    raise RuntimeError("this is bound to a network by azselfplay.games.jit.bind")


# ---- A step, from the call down ---------------------------------------------------------------------


@kernel
def expand_backup_select(
    forest: ForestArrays, requests: Any, priors: Any, wdl: Any, out: Outbox, results: Any
) -> int:
    """Carry out each of `requests` (REQUEST[n]), and write the results to `results` int8[n]. Returns how many
    of them are not IN_FLIGHT.

    priors float32[sum of counts] and wdl float32[n, 3] are those of the requests that bring an evaluation.
    """
    begin, not_in_flight = 0, 0
    for k in range(len(requests)):
        fetch_ahead(forest, requests, k)
        slot, command = requests[k].slot, requests[k].command
        tree = Tree(
            forest.parameters,
            forest.states[slot : slot + 1],
            forest.nodes[slot],
            forest.edges[slot],
            forest.root_noise[slot],
            forest.plan[slot],
        )
        result = DONE
        if command == REQUEST_ROOT:
            result = request_root(forest, tree, slot, out)
        elif command != SELECT:
            end = begin + requests[k].count
            value = float(wdl[k, 0] - wdl[k, 2])
            result = expand_backup(forest, tree, requests[k], priors[begin:end], value)
            # Only requests that bring an evaluation have priors in the message.
            begin = end
        # An engine first settles all answers, and then selects once (`search.leaf_parallel`).
        if result == DONE and command != SETTLE:
            result = select(forest, tree, slot, out)
        results[k] = result
        not_in_flight += result != IN_FLIGHT
    return not_in_flight


@kernel
def request_root(forest: ForestArrays, tree: Tree, slot: int, out: Outbox) -> int:
    """Request the evaluation of the root, which must not be the end of the game."""
    positions, pending, history = tree.state[0].positions, forest.pending[slot, 0], forest.history[slot]
    # If the outbox is full, the caller tries again in the next turn, after emptying it.
    if out.used[0].rows == len(out.counts):
        return OUTBOX_FULL
    pending.depth = 0
    pending.count = legal_actions(history, positions, forest.actions[slot, 0])
    pending.mover = side_to_move(history[positions - 1])
    encode(history, positions, forest.settings[0].history, out.features[out.used[0].rows])
    return IN_FLIGHT if send(forest, tree, slot, 0, out) else EXPANDED


@kernel
def expand_backup(forest: ForestArrays, tree: Tree, request: Any, priors: Any, value: float) -> int:
    """Give the leaf of `request` (REQUEST) its evaluation, `priors [n]` over its legal actions and `value`
    for its side to move. Returns EXPANDED for the root, IN_FLIGHT if other leaves of the tree are in
    flight, else DONE; STALE or MISFIT if the answer is not taken."""
    slot, leaf = request.slot, request.leaf
    state, pending, path = tree.state[0], forest.pending[slot, leaf], forest.paths[slot, leaf]
    if pending.ticket != request.ticket:
        return STALE
    if pending.count != len(priors):  # the answer of another network, or a damaged message
        return MISFIT
    pending.ticket = 0  # if the same answer comes again, it is STALE
    state.in_flight -= 1
    mark(tree.edges, path, pending.depth, -1)
    settle(tree, path, forest.actions[slot, leaf], pending, priors, value)
    if len(forest.cached_priors) > 0:
        insert(forest.cache_entries, forest.cached_priors, forest.counters, pending, priors, value)
    if pending.depth == 0:
        return EXPANDED
    return IN_FLIGHT if state.in_flight > 0 else DONE


@kernel
def select(forest: ForestArrays, tree: Tree, slot: int, out: Outbox) -> int:
    """Run simulations until the tree has as many leaves in flight as it may have. Returns a result of
    `search.layout`."""
    state, settings, history = tree.state[0], forest.settings[0], forest.history[slot]
    # A small tree gets few leaves, because each is selected without knowing the values of the others.
    wanted = max(1, min(settings.most_leaves, state.root_visits // VISITS_A_LEAF))
    walks = 0
    while state.in_flight < wanted and state.remaining > 0 and walks < MOST_WALKS:
        more = state.in_flight + 1  # each leaf in flight will need a node and its edges
        if state.nodes + more > len(tree.nodes) or state.edges + more * settings.max_legal > len(tree.edges):
            return IN_FLIGHT if state.in_flight > 0 else GROW
        if out.used[0].rows == len(out.counts):
            return IN_FLIGHT if state.in_flight > 0 else OUTBOX_FULL
        walks += 1
        # Leaves are selected only when none is in flight, so the places from here on are free.
        leaf = state.in_flight
        path, pending = forest.paths[slot, leaf], forest.pending[slot, leaf]
        end, depth = descend(tree, path, history)
        if end == COLLIDED:  # this leaf is already in flight: do not request it twice
            break
        state.remaining -= 1  # counted before the answer comes; `give_up` takes it back
        pending.depth = depth
        if end == ENDED:
            continue
        if examine_leaf(forest, tree, path, history, forest.actions[slot, leaf], pending) == LEAF:
            # `descend` has left the positions of the path behind those of the game.
            encode(history, state.positions + depth, settings.history, out.features[out.used[0].rows])
            send(forest, tree, slot, leaf, out)
    if state.in_flight > 0:
        return IN_FLIGHT
    return AGAIN if state.remaining > 0 else DONE


@kernel
def descend(tree: Tree, path: Any, history: Any) -> tuple[int, int]:
    """Select edges from the root down to a leaf, and write them to `path` (PATH_EDGE[max_plies + 1]). Returns
    (LEAF, ENDED or COLLIDED, number of edges on the path). Where the value is known (ENDED), it is backed up.

    Nodes store no positions. The moves are replayed, and their positions appended to the game's in `history`
    (uint64[max_plies + 2, state_words]); the features of a leaf are made from it.
    """
    node, depth, positions, solves = 0, 0, tree.state[0].positions, tree.state[0].solves
    # Once the root is proven won, only the winning move gets further visits.
    edge = proven_win_edge(tree) if solves and tree.nodes[0].proof > 0 else -1
    if edge < 0:
        edge = choose_root(tree)
    while True:
        path[depth].node = node
        path[depth].edge = edge
        depth += 1
        play(history[positions - 1], signed(tree.edges[edge].action), history[positions])
        positions += 1
        child = tree.edges[edge].child
        if child < 0:
            break
        if solves and tree.nodes[child].proof != 0:  # the value is exact: no need to search below
            backup(tree, path, depth, 1.0 if tree.nodes[child].proof > 0 else -1.0, tree.nodes[child].mover)
            return ENDED, depth
        edge = choose_below(tree, node, edge, child)
        node = child
    if child <= TERMINAL:  # TERMINAL or CUT: every visit has found the same value
        value = float(tree.edges[edge].value_sum) / tree.edges[edge].visits
        backup(tree, path, depth, value, tree.nodes[node].mover)
        return ENDED, depth
    return COLLIDED if tree.edges[edge].in_flight > 0 else LEAF, depth


@kernel
def examine_leaf(
    forest: ForestArrays, tree: Tree, path: Any, history: Any, actions: Any, pending: Any
) -> int:
    """Examine the position at the end of `path` (PATH_EDGE[max_plies + 1]), which has `pending.depth` edges.
    Returns LEAF, or ENDED after backing up the game's end. A game that reaches the ply cap is a draw, as in
    self-play.

    `history` uint64[max_plies + 2, state_words]; `actions` (uint16[max_legal]) and `pending` (PENDING) are
    written.
    """
    settings, depth = forest.settings[0], pending.depth
    positions = tree.state[0].positions + depth
    pending.count = legal_actions(history, positions, actions)
    pending.mover = side_to_move(history[positions - 1])
    reason = end_reason(history, positions, pending.count, tree.state[0].positions - 1)
    if reason == 0 and positions - 1 < settings.max_plies:
        if settings.looks_ahead and wins_ahead(forest, tree, path, history, actions, pending):
            return ENDED
        return LEAF
    value = float(END_VALUES[reason])  # 0 where only the ply cap ends the game
    # Find the newest root with which the game ends here. If that is the position itself, the end is certain;
    # else it depends on an earlier position of the line.
    newest = positions - 1
    while reason != 0 and end_reason(history, positions, pending.count, newest) == 0:
        newest -= 1
    is_certain = newest == positions - 1
    tree.edges[path[depth - 1].edge].child = TERMINAL if is_certain else CUT - newest
    backup(tree, path, depth, value, pending.mover)
    # A draw proves nothing: another move may be better.
    if value != 0.0 and is_certain:
        prove(tree, path, depth)
    return ENDED


@kernel
def wins_ahead(forest: ForestArrays, tree: Tree, path: Any, history: Any, actions: Any, pending: Any) -> bool:
    """Return whether a legal action (`actions`: uint16[max_legal]) of the leaf `pending` wins at once. If so,
    the leaf has become a proven node and has been backed up. `path` and `history` as in `examine_leaf`."""
    wins, depth = forest.replies[0], pending.depth
    positions = tree.state[0].positions + depth
    count = wins_among(history, positions, actions[: pending.count], wins, forest.replies[1])
    if count == 0:
        return False
    tree.edges[path[depth - 1].edge].child = expand_win(tree, wins[:count], pending.mover)
    backup(tree, path, depth, 1.0, pending.mover)
    prove(tree, path, depth)
    return True


@kernel
def send(forest: ForestArrays, tree: Tree, slot: int, leaf: int, out: Outbox) -> bool:
    """Send a leaf; its features are in the next row of the outbox already. If its evaluation is cached, or
    the forest has a network of its own, settle it at once instead. Returns True if the leaf is in flight."""
    state, pending = tree.state[0], forest.pending[slot, leaf]
    path, actions = forest.paths[slot, leaf], forest.actions[slot, leaf]
    row, at, count = out.used[0].rows, out.used[0].actions, pending.count
    if len(forest.cached_priors) > 0:
        write_key(out.features[row], actions, count, pending)
        way = find(forest.cache_entries, forest.counters[0].written, len(forest.cached_priors), pending)
        if way != NOTHING:
            entry = forest.cache_entries[int(pending.key_1 % np.uint64(len(forest.cache_entries))), way]
            begin = entry.place % len(forest.cached_priors)
            cached = forest.cached_priors[begin : begin + count]
            forest.counters[0].hits += 1
            settle(tree, path, actions, pending, cached, np.float64(entry.value))
            return False
    if EVALUATES:  # a compile-time constant: the other branch is not in the machine code
        priors, wdl, history = forest.priors[:count], forest.wdl, forest.settings[0].history
        evaluate(forest.weights, out.features[row], history, actions[:count], count, priors, wdl)
        value = float(wdl[0] - wdl[2])
        forest.counters[0].evaluated += 1
        settle(tree, path, actions, pending, priors, value)
        if len(forest.cached_priors) > 0:
            insert(forest.cache_entries, forest.cached_priors, forest.counters, pending, priors, value)
        return False
    # Only from here on the leaf is in flight: one that was settled above never was.
    state.ticket += 1
    pending.ticket = state.ticket
    mark(tree.edges, path, pending.depth, 1)
    state.in_flight += 1
    out.requests[row].slot = slot
    out.requests[row].leaf = leaf
    out.requests[row].ticket = state.ticket
    out.requests[row].count = count
    out.requests[row].command = ANSWER
    out.counts[row] = count
    for i in range(count):
        out.actions[at + i] = actions[i]
    out.used[0].rows = row + 1
    out.used[0].actions = at + count
    return True


@kernel
def settle(tree: Tree, path: Any, actions: Any, pending: Any, priors: Any, value: float) -> None:
    """Expand the leaf `pending` (PENDING) at the end of `path` (PATH_EDGE[max_plies + 1]) with its `priors
    [n]` over its legal `actions [n]`, and back up `value`. The leaf must not be in flight (any more)."""
    node = expand(tree, actions, priors, pending.mover)
    if pending.depth == 0:  # the root's evaluation is one visit, but no simulation
        tree.state[0].root_visits = 1
        tree.state[0].root_value_sum = value
        return
    tree.edges[path[pending.depth - 1].edge].child = node
    back_up_known(tree, path, pending, value)


@kernel
def back_up_known(tree: Tree, path: Any, pending: Any, value: float) -> None:
    """Back up the `value` of the leaf `pending` (PENDING) at the end of `path` (PATH_EDGE[max_plies + 1]), or
    the result that was proven for a node above it while it was in flight."""
    if tree.state[0].solves:
        for i in range(1, pending.depth):
            node = path[i].node
            if tree.nodes[node].proof != 0:
                known = 1.0 if tree.nodes[node].proof > 0 else -1.0
                backup(tree, path, pending.depth, known, tree.nodes[node].mover)
                return
    backup(tree, path, pending.depth, value, pending.mover)


@kernel
def mark(edges: Any, path: Any, depth: int, change: int) -> None:
    """Add `change` to `in_flight` of each of `edges` (EDGE[edge_room]) on `path` (PATH_EDGE[depth])."""
    for i in range(depth):
        edges[path[i].edge].in_flight += change


@kernel
def give_up(edges: Any, paths: Any, pending: Any, state: Any) -> None:
    """Give up the leaves in flight of a tree, as if their simulations had never begun. `edges`
    EDGE[edge_room], `paths` PATH_EDGE[L, max_plies + 1], `pending` PENDING[L], `state` STATE[1]."""
    for leaf in range(len(pending)):
        if pending[leaf].ticket != 0:
            mark(edges, paths[leaf], pending[leaf].depth, -1)
            pending[leaf].ticket = 0
            # The evaluation of the root does not count as a simulation.
            if pending[leaf].depth > 0:
                state[0].remaining += 1  # this simulation will be run again
    state[0].in_flight = 0


# ---- Fetching memory ahead --------------------------------------------------------------------------


@kernel
def fetch_ahead(forest: ForestArrays, requests: Any, k: int) -> None:
    """Prefetch the memory that the next three after request `k` of `requests` (REQUEST[n]) will read."""
    if k + 3 < len(requests):
        fetch_first(forest, requests[k + 3])
    if k + 2 < len(requests):
        fetch_path(forest, requests[k + 2])
    if k + 1 < len(requests):
        fetch_edges(forest, requests[k + 1])


@kernel
def fetch_first(forest: ForestArrays, request: Any) -> None:
    """Prefetch, three requests before `request` (REQUEST): the state of its search, its leaf and its root."""
    slot, leaf = request.slot, request.leaf
    prefetch(forest.states, slot)
    prefetch(forest.pending[slot], leaf)
    prefetch(forest.paths[slot, leaf], 0)
    prefetch(forest.paths[slot, leaf], 8)
    prefetch(forest.nodes[slot], 0)
    prefetch(forest.actions[slot, leaf], 0)
    prefetch(forest.actions[slot, leaf], 32)
    for edge in range(0, ROOT_EDGES, EDGES_A_LINE):
        prefetch(forest.edges[slot], edge)


@kernel
def fetch_path(forest: ForestArrays, request: Any) -> None:
    """Prefetch, two requests before `request` (REQUEST): the nodes on the leaf's path, and the space into
    which the leaf is expanded."""
    slot, leaf = request.slot, request.leaf
    state, path, pending = forest.states[slot], forest.paths[slot, leaf], forest.pending[slot, leaf]
    for i in range(1, pending.depth):
        prefetch(forest.nodes[slot], path[i].node)
    prefetch(forest.nodes[slot], state.nodes)
    newest = state.positions - 1
    end = min(newest + pending.depth + 2, forest.history.shape[1])  # `depth` may be an earlier search's
    for position in range(max(0, newest - forest.settings[0].history), end):
        prefetch(forest.history[slot, position], 0)
    for edge in range(0, pending.count, EDGES_A_LINE):
        prefetch(forest.edges[slot], state.edges + edge)


@kernel
def fetch_edges(forest: ForestArrays, request: Any) -> None:
    """Prefetch, one request before `request` (REQUEST): the edges of the nodes on the leaf's path."""
    slot, leaf = request.slot, request.leaf
    path = forest.paths[slot, leaf]
    for i in range(1, forest.pending[slot, leaf].depth):
        node = forest.nodes[slot, path[i].node]
        for edge in range(node.first_edge, node.first_edge + node.edge_count, EDGES_A_LINE):
            prefetch(forest.edges[slot], edge)


@intrinsic
def prefetch(_context: Any, array: Any, index: Any) -> Any:
    """Ask the processor to load `array[index]` (any shape [n]) into its caches, without waiting for it."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = signature.args[0]
        view = context.make_array(kind)(context, builder, arguments[0])
        at = context.cast(builder, arguments[1], signature.args[1], types.intp)
        pointer = get_item_pointer(context, builder, kind, view, [at], wraparound=False)
        address = builder.bitcast(pointer, ir.IntType(8).as_pointer())
        number = ir.IntType(32)
        function = builder.module.declare_intrinsic(
            "llvm.prefetch",
            [address.type],
            ir.FunctionType(ir.VoidType(), [address.type, number, number, number]),
        )
        read, everywhere, data = number(0), number(3), number(1)
        builder.call(function, [address, read, everywhere, data])
        return context.get_dummy_value()

    return types.none(array, index), code
