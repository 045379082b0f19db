"""The kernels of the search compiled for a game and a selection: one set per pair in each process."""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace

from games import get_game
from games.jit import bind
from games.stubs import bindings
from search import cache_kernel, random_kernel, root_kernel, step_kernel, tree_kernel
from search.selection import selection, stubs

KERNELS = (tree_kernel, random_kernel, cache_kernel, step_kernel, root_kernel)


@cache
def kernels_for(game_name: str, selection_name: str) -> SimpleNamespace:
    """Return the kernels. They are compiled on their first call, and cached on disk."""
    game, chooses = get_game(game_name), selection(selection_name)
    chosen = [(stubs.choose_root, chooses.choose_root), (stubs.choose_below, chooses.choose_below)]
    return bind([*KERNELS, chooses], {game_name: bindings(game), selection_name: chosen})
