"""Slow, obvious twin of `search.averaging`: plays the game in all its mirror images, evaluates each one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from games.spec import Game
from search.leaf_batch import Leaf


def naive_mean(
    game: Game,
    actions: list[int],
    leaf_after: Callable[[list[int]], Leaf],
    answer: Callable[[Leaf], tuple[np.ndarray, float]],
) -> tuple[dict[int, float], float]:
    """Return (prior by action, value) of the position after `actions`."""
    maps = [list(range(game.actions)), *(one.actions.tolist() for one in game.symmetries)]
    priors: dict[int, float] = dict.fromkeys(leaf_after(actions).actions.tolist(), 0.0)
    values = []
    for moved in maps:
        leaf = leaf_after([moved[action] for action in actions])
        said, value = answer(leaf)
        by_action = dict(zip(leaf.actions.tolist(), said.tolist(), strict=True))
        for action in priors:
            priors[action] += by_action[moved[action]] / len(maps)
        values.append(value)
    return priors, float(np.mean(values))
