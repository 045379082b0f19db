"""The selections: rules by which a search selects edges, one module each. A new one is a file in this folder,
with its name in NAMES.

`search.compiled` binds `choose_root` and `choose_below` into the step kernel, `search.forest` reads the sizes
and parameters, and `search.tree` and `search.mcts` call `begin` and `result`. All other code (self-play,
matches, analysis, engines) only names a selection, so nothing outside this folder says "if gumbel".

A selection is a module that defines the following, and any further kernels. `tree` is a
`search.tree.SearchTree`, or in kernels a `search.layout.Tree`.

FIELDS: tuple[str, ...]    Paths of the self-play settings that it reads.
LEARNS_SHARES: bool        Whether the policy target is the shares of an improved policy instead of visits.
IS_RANDOM: bool            Whether its kernels draw random numbers.
KEEPS_SUBTREE: bool        Whether a search may begin with the subtree of the move played.
parameters(settings)       Return the numbers from the settings that its kernels read as `tree.parameters`.
plan_room(settings)        Return the number of entries of `tree.plan` (int32) that a search needs.
begin(tree)                Prepare the root for a search: noise, plan.
result(tree)               Return the result of a search (`search.result.SearchResult`): policy target and
                           value.
root_scores(tree)          Return a tuple whose first entry has the `scores` of the root's edges
                           (`search.result.RootScores`), by which `play.thinker` ranks moves. Only needed if
                           KEEPS_SUBTREE is False: the plan of such a selection leaves several edges with the
                           same visits.
choose_root(tree)          Kernel. Return the root edge that the next simulation takes. At least one is not
                           BLOCKED.
choose_below(tree, parent, edge, node)
                           Kernel. Return the edge of `node` that the simulation takes next; it reached `node`
                           by `edge` of the node `parent`.
"""

from __future__ import annotations

import importlib
from typing import Any

from azselfplay.games.names import nearest

NAMES = ("puct", "gumbel", "thompson")


def selection(name: str) -> Any:
    """Return the module of that name. Raises ValueError if there is none."""
    if name not in NAMES:
        near = nearest(name, NAMES)
        raise ValueError(
            f"there is no selection {name!r} (the nearest is {near}); there are {', '.join(NAMES)}"
        )
    return importlib.import_module(f"azselfplay.search.selection.{name}")
