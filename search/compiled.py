"""The search kernels compiled for a game: one set of functions a game and process."""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace

import numpy as np

from games import get_game
from games.jit import specialise
from search.kernel import KERNELS


@cache
def kernels_for(game_name: str) -> SimpleNamespace:
    """The functions of `search.kernel` for one game; compiled on their first call, cached on disk."""
    game = get_game(game_name)
    end_values = np.array([reason.value for reason in game.end_reasons], dtype=np.int8)
    bindings = {**game.rules.bindings(), "END_VALUES": end_values}
    return SimpleNamespace(**specialise(KERNELS, bindings, game.name))
