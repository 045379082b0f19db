"""The two functions of a selection that kernels call; `games.jit.bind` puts those of a selection here."""

from __future__ import annotations

from search.layout import Tree


def choose_root(tree: Tree) -> int:  # noqa: ARG001
    """Return the root edge that the next simulation takes. At least one is not BLOCKED."""
    raise RuntimeError("this is bound to a selection by games.jit.bind")


def choose_below(tree: Tree, parent: int, edge: int, node: int) -> int:  # noqa: ARG001
    """Return the edge of `node` that the next simulation takes; it came there by `edge` of the node
    `parent`."""
    raise RuntimeError("this is bound to a selection by games.jit.bind")
