"""Sequential test of two Elo differences on paired games: ends a match as soon as one can be accepted.

Generalised SPRT on pentanomial counts (Michel Van den Bergh, as in fishtest): the log likelihood ratio of the
most likely distributions of pair scores whose means are those of elo1 and of elo0. A kind of pair that has
not occurred counts UNSEEN, so that a likelihood exists. elo1 is accepted when the ratio exceeds log((1 -
beta) / alpha), elo0 when it falls below log(beta / (1 - alpha)).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from evaluation.match.elo import PAIR_SCORES, score_of_elo

UNSEEN = 1e-3
BISECTIONS = 60
MOST_ELO = 1000.0
"""Largest difference: a score of 0.997."""


@dataclass(frozen=True)
class Sprt:
    """H0: A is `elo0` stronger (or less); H1: A is `elo1` stronger (or more). Logistic Elo."""

    elo0: float
    elo1: float
    alpha: float = 0.05
    """Probability of accepting H1 when H0 is true."""
    beta: float = 0.05
    """Probability of accepting H0 when H1 is true."""

    def __post_init__(self) -> None:
        if not self.elo0 < self.elo1:
            raise ValueError(f"elo0 {self.elo0:g} must be less than elo1 {self.elo1:g}")
        if not max(abs(self.elo0), abs(self.elo1)) <= MOST_ELO:
            raise ValueError(f"differences of more than {MOST_ELO:g} Elo cannot be told apart")
        if not (0 < self.alpha < 0.5 and 0 < self.beta < 0.5):
            raise ValueError("alpha and beta must lie between 0 and 0.5")

    @property
    def lower(self) -> float:
        return math.log(self.beta / (1.0 - self.alpha))

    @property
    def upper(self) -> float:
        return math.log((1.0 - self.beta) / self.alpha)

    def verdict(self, counts: Sequence[int]) -> str:
        """ "H0", "H1", or "" while the match must go on."""
        ratio = self.log_likelihood_ratio(counts)
        if ratio >= self.upper:
            return "H1"
        return "H0" if ratio <= self.lower else ""

    def log_likelihood_ratio(self, counts: Sequence[int]) -> float:
        """Logarithm of the likelihood ratio of H1 to H0."""
        seen = [max(float(count), UNSEEN) for count in counts]
        total = sum(seen)
        shares = [count / total for count in seen]
        under0 = most_likely(shares, score_of_elo(self.elo0))
        under1 = most_likely(shares, score_of_elo(self.elo1))
        return sum(n * math.log(p1 / p0) for n, p1, p0 in zip(seen, under1, under0, strict=True))


def most_likely(shares: Sequence[float], mean: float) -> list[float]:
    """The distribution with mean `mean` under which a sample with `shares` (all > 0) is most likely.

    By Lagrange `p = share / (1 + t (score - mean))`. Bisection finds the t that gives the mean, among those
    for which all p are positive.
    """
    low, high = -1.0 / (PAIR_SCORES[-1] - mean), 1.0 / (mean - PAIR_SCORES[0])

    def excess(t: float) -> float:
        return sum(p * (s - mean) / (1.0 + t * (s - mean)) for p, s in zip(shares, PAIR_SCORES, strict=True))

    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        if excess(middle) > 0:
            low = middle
        else:
            high = middle
    t = (low + high) / 2
    return [p / (1.0 + t * (s - mean)) for p, s in zip(shares, PAIR_SCORES, strict=True)]
