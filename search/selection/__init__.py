"""Ways to choose in a search, one module each. A new one is a file here, and its name below.

A selection is a module with

parameters(settings)                numbers of the settings that its kernels read: `tree.parameters`
FIELDS                              paths of the settings of self-play that are its own
LEARNS_SHARES                       whether the policy target is shares of an improved policy, not visits
IS_RANDOM                           whether its kernels draw random numbers
KEEPS_SUBTREE                       whether a search may begin with the subtree of the move played
plan_room(settings)                 entries of `plan` (int32) it needs in each tree
begin(tree, is_cheap=...)           prepares the root for a search: noise, plan
result(tree, view, is_cheap=...)    what the search found: policy target and value
choose_root(tree) -> edge           kernel: see `search.stubs`
choose_below(tree, parent, edge, node) -> edge

and any kernels of its own. Everybody else (self-play, matches, analysis, engines) takes it by its name.
"""

from __future__ import annotations

import importlib
from typing import Any

from games.names import nearest

NAMES = ("puct", "gumbel", "thompson")


def selection(name: str) -> Any:
    """Return the module of that name."""
    if name not in NAMES:
        near = nearest(name, NAMES)
        raise ValueError(
            f"there is no selection {name!r} (the nearest is {near}); there are {', '.join(NAMES)}"
        )
    return importlib.import_module(f"search.selection.{name}")
