"""The tree that settings ask for."""

from __future__ import annotations

import numpy as np

from games.spec import Game
from protocol.settings import SelfPlaySettings
from search.gumbel_tree import GumbelTree
from search.tree import SearchTree


def tree_for(game: Game, settings: SelfPlaySettings, rng: np.random.Generator) -> SearchTree:
    """A tree for the resolved `settings` (`root` chooses its kind), not yet at a position."""
    kind = GumbelTree if settings.root == "gumbel" else SearchTree
    return kind(game, settings, rng)
