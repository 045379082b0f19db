"""Chooses the move to play from a search result."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from games.jit import jit
from protocol.settings import SelfPlaySettings
from search.final_move import final_action, is_sampled
from search.result import SearchResult
from search.selection.halving import RootScores


def choose_action(
    result: SearchResult, ply: int, settings: SelfPlaySettings, rng: np.random.Generator
) -> int:
    """Sample from visits ** (1 / temperature) for the first plies, then play what `final_move` says.

    With `search.selection = "gumbel"` see `choose_by_scores`.
    """
    sampled_now = is_sampled(settings, ply)
    if result.scores is not None:
        temperature = settings.moves.temperature if sampled_now and settings.noise.root_noise > 0 else 0.0
        return choose_by_scores(result.scores, temperature, rng, has_noise=result.is_target)
    if not sampled_now and result.candidates is not None and settings.moves.final_move != "visits":
        return final_action(result.candidates, settings)
    if not sampled_now:
        return int(result.actions[np.argmax(result.visits)])
    weights = result.visits / result.visits.max()
    if settings.moves.temperature != 1.0:
        weights **= 1.0 / settings.moves.temperature
    cumulative = weights.cumsum()
    drawn = cumulative.searchsorted(rng.random() * cumulative[-1], side="right")
    return int(result.actions[min(int(drawn), len(weights) - 1)])


def choose_by_scores(
    root: RootScores, temperature: float, rng: np.random.Generator, *, has_noise: bool
) -> int:
    """Return the winner of sequential halving: among the most visited actions, the one with the largest
    score.

    For the first plies (`temperature` above 0) the noise of the search is included. At temperature 1 that
    samples from the improved policy, but only approximately: the noise also decided which actions were
    considered, and with one considered action it samples from the prior. A search without noise (a cheap one)
    then samples from all actions that it visited.
    """
    if temperature > 0 and not has_noise:
        scores = root.scores + temperature * rng.gumbel(size=len(root.scores))
        return int(root.actions[np.argmax(np.where(root.visits > 0, scores, -np.inf))])
    return int(root.actions[_winner(root.visits, root.scores, root.noise, temperature)])


@jit
def _winner(
    visits: npt.NDArray[np.int32],
    scores: npt.NDArray[np.float64],
    noise: npt.NDArray[np.float64],
    temperature: float,
) -> int:
    """Return the index of the largest score, plus `temperature` times the noise, among the most visited."""
    most = visits.max()
    best, best_score = -1, -np.inf
    for i in range(len(visits)):
        score = scores[i] + temperature * noise[i]
        if visits[i] == most and (best < 0 or score > best_score):
            best, best_score = i, score
    return best
