"""Ways to choose in a search, one module each. A new one is a file here, and its name in NAMES.

A selection is a module that has what `Selection` lists, and any kernels of its own. `search.compiled` binds
its two kernels into the step of the search; `search.forest` reads what it needs; `search.tree` and
`search.mcts` call `begin` and `result`. Everybody else (self-play, matches, analysis, engines) takes it by
its name, so nothing outside this folder says "if gumbel".
"""

from __future__ import annotations

import importlib
from typing import Any, Protocol

from azselfplay.games.names import nearest
from protocol.settings import SelfPlaySettings

NAMES = ("puct", "gumbel", "thompson")


class Selection(Protocol):
    """What a module of this folder defines. tree: `search.tree.SearchTree`, in kernels
    `search.layout.Tree`."""

    FIELDS: tuple[str, ...]
    """Paths of the settings of self-play that are its own."""
    LEARNS_SHARES: bool
    """Whether the policy target is shares of an improved policy, not visits."""
    IS_RANDOM: bool
    """Whether its kernels draw random numbers."""
    KEEPS_SUBTREE: bool
    """Whether a search may begin with the subtree of the move played."""

    def parameters(self, settings: SelfPlaySettings) -> tuple[float, ...]:
        """Numbers of the settings that its kernels read: `tree.parameters`."""

    def plan_room(self, settings: SelfPlaySettings) -> int:
        """Entries of `tree.plan` (int32) that a search needs."""

    def begin(self, tree: Any, *, is_cheap: bool) -> None:
        """Prepare the root for a search: noise, plan."""

    def result(self, tree: Any, view: Any, *, is_cheap: bool) -> Any:
        """What the search found (`search.result.SearchResult`): policy target and value. view: the network's
        own evaluation of the root (`search.tree.NetView`)."""

    def root_scores(self, tree: Any) -> Any:
        """How good each root edge is after the plan. Only where `KEEPS_SUBTREE` is false: such a plan leaves
        several edges with the same visits."""

    def choose_root(self, tree: Any) -> int:
        """Kernel: the root edge that the next simulation takes. At least one is not BLOCKED."""

    def choose_below(self, tree: Any, parent: int, edge: int, node: int) -> int:
        """Kernel: the edge of `node` that it takes there; it came by `edge` of the node `parent`."""


def selection(name: str) -> Any:
    """The module of that name, a `Selection`. Raises ValueError if there is none."""
    if name not in NAMES:
        near = nearest(name, NAMES)
        raise ValueError(
            f"there is no selection {name!r} (the nearest is {near}); there are {', '.join(NAMES)}"
        )
    return importlib.import_module(f"azselfplay.search.selection.{name}")
