"""What the step kernel calls without knowing it: a selection, and perhaps a network. `search.compiled` binds
real ones to these names."""

from __future__ import annotations

from typing import Any

from games.jit import Unbound
from search.layout import Tree


def choose_root(tree: Tree) -> int:  # noqa: ARG001
    """Return the root edge that the next simulation takes. At least one is not BLOCKED."""
    raise RuntimeError("this is bound to a selection by games.jit.bind")


def choose_below(tree: Tree, parent: int, edge: int, node: int) -> int:  # noqa: ARG001
    """Return the edge of `node` that the next simulation takes; it came there by `edge` of the node
    `parent`."""
    raise RuntimeError("this is bound to a selection by games.jit.bind")


EVALUATES = Unbound()
"""1 if the forest has a network of its own, else 0: leaves then go to the outbox."""


def evaluate(
    weights: Any,  # noqa: ARG001
    packed_features: Any,  # noqa: ARG001
    history: int,  # noqa: ARG001
    actions: Any,  # noqa: ARG001
    count: int,  # noqa: ARG001
    priors: Any,  # noqa: ARG001
    wdl: Any,  # noqa: ARG001
) -> None:
    """Write `priors` float32[count] of the legal `actions` uint16[count] and `wdl` float32[3] of a leaf with
    these `packed_features` uint64[feature_words]."""
    raise RuntimeError("this is bound to a network by games.jit.bind")
