"""The selections: rules by which a search selects edges, one module each. A new one is a file in this folder,
with its name in NAMES.

A selection is a module that defines what `Selection` lists, and any further kernels. `search.compiled` binds
`choose_root` and `choose_below` into the step kernel, `search.forest` reads the sizes and parameters, and
`search.tree` and `search.mcts` call `begin` and `result`. All other code (self-play, matches, analysis,
engines) only names a selection, so nothing outside this folder says "if gumbel".
"""

from __future__ import annotations

import importlib
from typing import Any, Protocol

from azselfplay.games.names import nearest
from protocol.settings import SelfPlaySettings

NAMES = ("puct", "gumbel", "thompson")


class Selection(Protocol):
    """What a module of this folder defines. `tree` is a `search.tree.SearchTree`, or in kernels a
    `search.layout.Tree`."""

    FIELDS: tuple[str, ...]
    """Paths of the self-play settings that this selection reads."""
    LEARNS_SHARES: bool
    """Whether the policy target is the shares of an improved policy instead of visits."""
    IS_RANDOM: bool
    """Whether its kernels draw random numbers."""
    KEEPS_SUBTREE: bool
    """Whether a search may begin with the subtree of the move played."""

    def parameters(self, settings: SelfPlaySettings) -> tuple[float, ...]:
        """Return the numbers from the settings that its kernels read as `tree.parameters`."""

    def plan_room(self, settings: SelfPlaySettings) -> int:
        """Return the number of entries of `tree.plan` (int32) that a search needs."""

    def begin(self, tree: Any) -> None:
        """Prepare the root for a search: noise, plan."""

    def result(self, tree: Any) -> Any:
        """Return the result of a search (`search.result.SearchResult`): policy target and value."""

    def root_scores(self, tree: Any) -> Any:
        """Return a tuple whose first entry has the `scores` of the root's edges (`search.result.RootScores`),
        by which `play.thinker` ranks moves. Only needed if `KEEPS_SUBTREE` is False: the plan of such a
        selection leaves several edges with the same visits."""

    def choose_root(self, tree: Any) -> int:
        """Kernel. Return the root edge that the next simulation takes. At least one is not BLOCKED."""

    def choose_below(self, tree: Any, parent: int, edge: int, node: int) -> int:
        """Kernel. Return the edge of `node` that the simulation takes next; it reached `node` by `edge` of
        the node `parent`."""


def selection(name: str) -> Any:
    """Return the module of that name, a `Selection`. Raises ValueError if there is none."""
    if name not in NAMES:
        near = nearest(name, NAMES)
        raise ValueError(
            f"there is no selection {name!r} (the nearest is {near}); there are {', '.join(NAMES)}"
        )
    return importlib.import_module(f"azselfplay.search.selection.{name}")
