"""From visit counts to the move played."""

from __future__ import annotations

import numpy as np

from protocol.settings import SelfPlaySettings
from search.mcts import SearchResult


def choose_action(
    result: SearchResult, ply: int, settings: SelfPlaySettings, rng: np.random.Generator
) -> int:
    """Sample from visits ** (1 / temperature) for the first plies, then play the most visited action."""
    if ply >= settings.temperature_plies or settings.temperature == 0:
        return int(result.actions[np.argmax(result.visits)])
    weights = (result.visits / result.visits.max()) ** (1.0 / settings.temperature)
    cumulative = np.cumsum(weights)
    drawn = np.searchsorted(cumulative, rng.random() * cumulative[-1], side="right")
    return int(result.actions[min(int(drawn), len(weights) - 1)])
