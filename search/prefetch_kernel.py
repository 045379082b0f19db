"""Prefetches the memory of a search before its turn comes.

A message of answers steps dozens of trees one after the other, none of which is in the processor's caches:
the trees of 512 games of chess take hundreds of megabytes. It is known beforehand which memory of a tree will
be read: along the path of its leaf, and selection mostly follows the same first edges again. So while one
tree is stepped, the memory of the next ones is fetched in three stages, each of which reads what the one
before has fetched.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.core.cgutils import get_item_pointer
from numba.extending import intrinsic

from games.jit import kernel
from search.layout import EDGE, ForestArrays

EDGES_A_LINE = 64 // EDGE.itemsize
"""Edges that certainly lie on one cache line or the next."""
ROOT_EDGES = 32
"""Edges of a root that are fetched before their number is known."""


@intrinsic  # type: ignore[untyped-decorator]
def prefetch(_context: Any, array: Any, index: Any) -> Any:
    """Request the memory of `array[index]` (any shape [n]); nothing waits for it."""

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


@kernel
def fetch_first(forest: ForestArrays, row: Any) -> None:
    """Three turns before that of `row` (ROW): fetch the state of its search, its leaf and the root."""
    slot, leaf = row.slot, row.leaf
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
def fetch_path(forest: ForestArrays, row: Any) -> None:
    """Two turns before that of `row` (ROW): fetch the nodes on the leaf's path, and where it is expanded."""
    slot, leaf = row.slot, row.leaf
    state, path, pending = forest.states[slot], forest.paths[slot, leaf], forest.pending[slot, leaf]
    for i in range(1, pending.depth):
        prefetch(forest.nodes[slot], path[i].node)
    prefetch(forest.nodes[slot], state.nodes)
    newest = state.positions - 1
    end = min(newest + pending.depth + 2, forest.history.shape[1])  # `depth` may be of the search before
    for position in range(max(0, newest - forest.settings[0].history), end):
        prefetch(forest.history[slot, position], 0)
    for edge in range(0, pending.count, EDGES_A_LINE):
        prefetch(forest.edges[slot], state.edges + edge)


@kernel
def fetch_edges(forest: ForestArrays, row: Any) -> None:
    """One turn before that of `row` (ROW): fetch the edges of these nodes."""
    slot, leaf = row.slot, row.leaf
    path = forest.paths[slot, leaf]
    for i in range(1, forest.pending[slot, leaf].depth):
        node = forest.nodes[slot, path[i].node]
        for edge in range(node.first_edge, node.first_edge + node.edge_count, EDGES_A_LINE):
            prefetch(forest.edges[slot], edge)


@kernel
def fetch_ahead(forest: ForestArrays, rows: Any, k: int) -> None:
    """Fetch what the rows after row `k` of `rows` (ROW[n]) will read."""
    if k + 3 < len(rows):
        fetch_first(forest, rows[k + 3])
    if k + 2 < len(rows):
        fetch_path(forest, rows[k + 2])
    if k + 1 < len(rows):
        fetch_edges(forest, rows[k + 1])
