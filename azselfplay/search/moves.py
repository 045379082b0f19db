"""Chooses the move to play from a search result.

The first plies of a game are sampled from the visits (`temperature`); afterwards `final_move` names one of
five ways to read a finished PUCT search, four of which are the children of Chaslot et al., "Progressive
strategies for Monte-Carlo tree search" (2008). A search with a Gumbel root plays the winner of its sequential
halving.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from azselfplay.search.result import Candidates, RootScores, SearchResult
from protocol.settings import SelfPlaySettings

SECURE = 1.0
"""Constant of `secure`, in units of value (Chaslot et al. give 4 for their program Mango)."""


def is_sampled(settings: SelfPlaySettings, ply: int) -> bool:
    """Return whether the move of this ply is sampled from the visits (temperature)."""
    return ply < settings.moves.temperature_plies and settings.moves.temperature > 0


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
    # Rounding may place the number drawn at the very end of the sum.
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
    scores = root.scores + temperature * root.noise
    return int(root.actions[np.argmax(np.where(root.visits == root.visits.max(), scores, -np.inf))])


# ---- Rules of `final_move` ---------------------------------------------------------------------------


def final_action(candidates: Candidates, settings: SelfPlaySettings) -> int:
    """Return the action that `final_move` plays; for `visits` the first of the most visited."""
    rule = settings.moves.final_move
    if rule == "max" or (rule == "max_robust" and agrees(candidates)):
        index = max_child(candidates)
    elif rule == "secure":
        index = secure_child(candidates, SECURE)
    elif rule == "visits":
        index = int(np.argmax(candidates.visits))
    else:
        index = robust_child(candidates)
    return int(candidates.actions[index])


def agrees(candidates: Candidates) -> bool:
    """Return whether an action with the highest value also has the most visits: the max-robust child."""
    return bool(candidates.visits[max_child(candidates)] == candidates.visits.max())


def max_child(candidates: Candidates) -> int:
    """Return the index of the highest value; ties go to the most visited."""
    return _best(candidates.values, candidates.visits)


def robust_child(candidates: Candidates) -> int:
    """Return the index of the most visits; ties go to the highest value."""
    return _best(candidates.visits, candidates.values)


def secure_child(candidates: Candidates, c: float) -> int:
    """Return the index of the highest lower bound, value - c / sqrt(visits)."""
    return _best(candidates.values - c / np.sqrt(candidates.visits), candidates.visits)


def _best(first: npt.NDArray[np.generic], second: npt.NDArray[np.generic]) -> int:
    """Return the index of the largest pair (`first [k]`, `second [k]`); ties go to the lowest index."""
    return int(np.lexsort((-np.arange(len(first)), second, first))[-1])
