"""Elo difference and its error from a match of paired games, and the test that ends a match early. Pure.

Two games from one opening with colours swapped are one observation, because their results depend on each
other (an opening that is good for White gives 1-1). So the error comes from the variance of pairs, not of
games. A pair scores 0, 1/2, 1, 3/2 or 2 points: the pentanomial counts n[0..4].

Elo is logistic: a score s corresponds to -400 log10(1/s - 1). The 95 % interval of the mean score, s +- 1.96
standard errors, is converted to Elo by the same formula; where the interval reaches 0 or 1, the Elo is
infinite.

If nearly all pairs are alike, the sample says too little about their variance: with 50 pairs of which 6 % are
not won 2-0, such an interval would contain the true value in only 85 % of matches. So the interval is
computed after adding one pair won 2-0 and one pair lost 0-2 to the sample (as in Agresti and Coull 1998); it
then contains the true value in 94 % or more of these matches. The interval always contains the score itself.
The score and its Elo are those of the sample without the added pairs (a score of 0 or 1 is -inf or +inf).
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
    """Return the Elo difference at which `score` (in [0, 1]) is expected; -inf and +inf at the ends."""
    if score <= 0.0:
        return -math.inf
    if score >= 1.0:
        return math.inf
    return -400.0 * math.log10(1.0 / score - 1.0)


def score_of_elo(elo: float) -> float:
    """Return the expected score at an Elo difference."""
    return float(1.0 / (1.0 + 10.0 ** (-elo / 400.0)))


def wilson(hits: float, trials: int) -> tuple[float, float]:
    """Return the 95 % interval of a share of independent trials, by Wilson's score; (0, 1) without trials."""
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
        # A sum of -2 (both lost) to +2 becomes an index from 0 to 4.
        counts[one + other + 2] += 1
    return tuple(counts)


def won_drawn_lost(outcomes: Sequence[int]) -> tuple[int, int, int]:
    """Return the numbers of outcomes (+1, 0, -1) that are wins, draws and losses."""
    return outcomes.count(1), outcomes.count(0), outcomes.count(-1)


def mean_and_variance(counts: Sequence[float]) -> tuple[float, float]:
    """Return the mean and variance of the score of a pair (0 to 1) over the sample; the variance divides by
    n."""
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


def estimate(counts: Sequence[float]) -> EloEstimate:
    """Return the estimate from pentanomial counts (fractions, too). Raises ValueError without pairs."""
    pairs = sum(counts)
    if pairs == 0:
        raise ValueError("no pair of games has been played")
    score, _ = mean_and_variance(counts)
    centre, variance = mean_and_variance([counts[0] + 1, *counts[1:4], counts[4] + 1])
    error = math.sqrt(variance / (pairs + 2))  # with the two pairs that were added
    # The interval contains the score itself and stays within [0, 1].
    low = max(0.0, min(score, centre - Z95 * error))
    high = min(1.0, max(score, centre + Z95 * error))
    los = 0.5 * (1.0 + math.erf((score - 0.5) / error / math.sqrt(2.0)))
    return EloEstimate(
        score, low, high, elo_of_score(score), elo_of_score(low), elo_of_score(high), los, round(pairs)
    )


# Sequential test of two Elo differences on paired games: it ends a match as soon as one of them can be
# accepted.
#
# Generalised SPRT on pentanomial counts (Michel Van den Bergh, as in fishtest): the log likelihood ratio of
# the most likely distributions of pair scores whose means are those of elo1 and of elo0. A kind of pair that
# has not occurred counts UNSEEN, so that a likelihood exists. elo1 is accepted when the ratio reaches BOUND,
# elo0 when it reaches -BOUND.

ERROR = 0.05
"""Probability of accepting H1 when H0 is true, and of accepting H0 when H1 is true."""
BOUND = math.log((1.0 - ERROR) / ERROR)
UNSEEN = 1e-3
BISECTIONS = 60
MOST_ELO = 1000.0
"""Largest difference: a score of 0.997."""


@dataclass(frozen=True)
class Sprt:
    """H0: A is `elo0` stronger (or less); H1: A is `elo1` stronger (or more). Logistic Elo."""

    elo0: float
    elo1: float

    def __post_init__(self) -> None:
        if not self.elo0 < self.elo1:
            raise ValueError(f"elo0 {self.elo0:g} must be less than elo1 {self.elo1:g}")
        # `not <=`, so that NaN is refused, too.
        if not max(abs(self.elo0), abs(self.elo1)) <= MOST_ELO:
            raise ValueError(f"differences of more than {MOST_ELO:g} Elo cannot be told apart")

    def verdict(self, counts: Sequence[int]) -> str:
        """ "H0", "H1", or "" while the match must go on."""
        ratio = self.log_likelihood_ratio(counts)
        if ratio >= BOUND:
            return "H1"
        return "H0" if ratio <= -BOUND else ""

    def log_likelihood_ratio(self, counts: Sequence[int]) -> float:
        """Return the logarithm of the likelihood ratio of H1 to H0."""
        # An unseen kind of pair gets a small count, so that its logarithm exists.
        seen = [max(float(count), UNSEEN) for count in counts]
        total = sum(seen)
        shares = [count / total for count in seen]
        under0 = most_likely(shares, score_of_elo(self.elo0))
        under1 = most_likely(shares, score_of_elo(self.elo1))
        return sum(n * math.log(p1 / p0) for n, p1, p0 in zip(seen, under1, under0, strict=True))


def most_likely(shares: Sequence[float], mean: float) -> list[float]:
    """Return the distribution with mean `mean` under which a sample with `shares` (all > 0) is most likely.

    By Lagrange `p = share / (1 + t (score - mean))`. Bisection finds the t that gives the mean, among those
    for which all p are positive.
    """
    # The poles of the two extreme scores: between them every denominator is positive.
    low, high = -1.0 / (PAIR_SCORES[-1] - mean), 1.0 / (mean - PAIR_SCORES[0])

    def excess(t: float) -> float:
        return sum(p * (s - mean) / (1.0 + t * (s - mean)) for p, s in zip(shares, PAIR_SCORES, strict=True))

    # Each step halves the range; 60 steps reach the last bit of a float.
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        if excess(middle) > 0:
            low = middle
        else:
            high = middle
    t = (low + high) / 2
    return [p / (1.0 + t * (s - mean)) for p, s in zip(shares, PAIR_SCORES, strict=True)]
