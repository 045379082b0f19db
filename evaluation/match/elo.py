"""Elo difference and its error from a match of paired games. Pure.

Two games from one opening with colours swapped are one observation, because their results depend on each
other (an opening that is good for White gives 1-1). So the error comes from the variance of pairs, not of
games. A pair scores 0, 1/2, 1, 3/2 or 2 points: the pentanomial counts n[0..4].

Elo is logistic: score s <-> -400 log10(1/s - 1). The 95 % interval is that of the mean score, s +- 1.96
standard errors, put through the same curve; where it reaches 0 or 1 the Elo is infinite.

Where nearly all pairs are alike, the sample says too little about their variance: with 50 pairs of which 6 %
are not won 2-0, such an interval would hold the truth in 85 % of matches. So it is that of the sample with
one pair won 2-0 and one lost 0-2 added (in the way of Agresti and Coull 1998), which holds it in 94 % or more
there. It always contains the score itself. The score and its Elo are those of the sample (a score of 0 or 1
is -inf or +inf).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

Z95 = 1.959963984540054
"""Two-sided 95 % quantile of the normal distribution."""

PAIR_SCORES = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Score per game of each kind of pair."""


def elo_of_score(score: float) -> float:
    """Elo difference at which `score` (in [0, 1]) is expected; -inf and +inf at the ends."""
    if score <= 0.0:
        return -math.inf
    if score >= 1.0:
        return math.inf
    return -400.0 * math.log10(1.0 / score - 1.0)


def score_of_elo(elo: float) -> float:
    """Expected score at an Elo difference."""
    return float(1.0 / (1.0 + 10.0 ** (-elo / 400.0)))


def wilson(hits: float, trials: int) -> tuple[float, float]:
    """95 % interval of a share of independent trials, by Wilson's score; (0, 1) without trials."""
    if not trials:
        return 0.0, 1.0
    share, square = hits / trials, Z95**2
    middle = share + square / (2 * trials)
    spread = Z95 * math.sqrt(share * (1 - share) / trials + square / (4 * trials**2))
    low, high = ((middle + sign * spread) / (1 + square / trials) for sign in (-1, 1))
    return low if hits else 0.0, high if hits < trials else 1.0  # exact: rounding must not leave [0, 1]


def pair_counts(outcomes: Sequence[int]) -> tuple[int, ...]:
    """Pentanomial counts from outcomes for player A (+1, 0, -1). Games 2i and 2i+1 are a pair.

    Raises ValueError for an odd number of games.
    """
    if len(outcomes) % 2:
        raise ValueError(f"{len(outcomes)} games cannot be grouped into pairs")
    counts = [0] * 5
    for one, other in zip(outcomes[::2], outcomes[1::2], strict=True):
        counts[one + other + 2] += 1
    return tuple(counts)


def mean_and_variance(counts: Sequence[float]) -> tuple[float, float]:
    """Mean and variance of the score of a pair (0 to 1) over the sample; the variance divides by n."""
    total = sum(counts)
    mean = sum(n * s for n, s in zip(counts, PAIR_SCORES, strict=True)) / total
    variance = sum(n * (s - mean) ** 2 for n, s in zip(counts, PAIR_SCORES, strict=True)) / total
    return mean, variance


@dataclass(frozen=True)
class EloEstimate:
    """A's strength relative to B's."""

    score: float
    """A's points per game."""
    score_low: float
    score_high: float
    elo: float
    elo_low: float
    """Lower end of the 95 % interval."""
    elo_high: float
    los: float
    """Likelihood of superiority: probability that A is the stronger, normal approximation."""
    pairs: int

    @property
    def error(self) -> float:
        """Half the width of the interval, Elo."""
        return (self.elo_high - self.elo_low) / 2


def estimate(counts: Sequence[int]) -> EloEstimate:
    """The estimate from pentanomial counts. Raises ValueError without pairs."""
    pairs = sum(counts)
    if pairs == 0:
        raise ValueError("no pair of games has been played")
    score, _ = mean_and_variance(counts)
    centre, variance = mean_and_variance([counts[0] + 1, *counts[1:4], counts[4] + 1])
    error = math.sqrt(variance / (pairs + 2))
    low = max(0.0, min(score, centre - Z95 * error))
    high = min(1.0, max(score, centre + Z95 * error))
    los = 0.5 * (1.0 + math.erf((score - 0.5) / error / math.sqrt(2.0)))
    return EloEstimate(
        score, low, high, elo_of_score(score), elo_of_score(low), elo_of_score(high), los, pairs
    )
