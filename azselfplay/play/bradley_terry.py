"""Ratings from many pairings at once: maximum likelihood in the Bradley-Terry model, on the Elo scale.

The probability that a player rated `a` beats one rated `b` is `1 / (1 + 10 ** ((b - a) / 400))`; a draw
counts as half a win and half a loss. (A model of draws would narrow the intervals of drawish games; with
draws as halves, they are too wide, never too narrow.) There is no term for the first move: pairings are
played from paired openings, each side once, so that the advantage of moving first cancels.

Players in `anchors` keep their rating; all others are estimated. There is a weak prior: every free player
gets `PRIOR_DRAWS` extra drawn games, distributed over its opponents like its real games, so that a score of
100 % has a finite rating. 20 wins in 20 games give 763 Elo more than an anchor; 10 wins in 20 games stay at
0.

`next_pair` chooses what to play next: first a chain that connects all players, then always the pairing whose
games lower the sum of the squared errors of all ratings most (A-optimal design). Games between players of
very different strength tell little (`p (1 - p)` is small), and so do games between players whose difference
is well known. So it chooses players with similar ratings, and players about whom little is known, such as new
weights.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

import numpy as np
import numpy.typing as npt

from azselfplay.play.elo import Z95, score_of_elo

Pair = tuple[str, str]

Array = npt.NDArray[np.float64]

PER_ELO = float(np.log(10.0) / 400.0)
"""Log odds per Elo point."""

PRIOR_DRAWS = 0.5
"""Drawn games added for each free player; half a game in 40 shrinks a difference by about 1 %."""

_STEPS = 200


@dataclass(frozen=True)
class Score:
    """Games between two players, counted for `first` (the name, not who moved first)."""

    first: str
    second: str
    wins: int = 0
    draws: int = 0
    losses: int = 0

    @property
    def games(self) -> int:
        return self.wins + self.draws + self.losses

    @property
    def points(self) -> float:
        return self.wins + self.draws / 2


@dataclass(frozen=True)
class Rating:
    """One player's result. The 95 % interval is `elo - margin .. elo + margin`; an anchor's margin is 0."""

    elo: float
    margin: float
    games: int
    points: float


@dataclass(frozen=True)
class Fit:
    """All ratings, and their common uncertainty."""

    ratings: dict[str, Rating]
    covariance: Array
    """Elo squared, [players, players], in the order of `ratings`; 0 for anchors, whose rating is fixed."""


def unconnected(scores: Iterable[Score], anchors: Iterable[str], names: Iterable[str] = ()) -> set[str]:
    """Return the players (of the scores, and `names`) without a chain of games to any anchor."""
    opponents: defaultdict[str, set[str]] = defaultdict(set)
    for score in scores:
        if score.games:
            opponents[score.first].add(score.second)
            opponents[score.second].add(score.first)
    reached = set(anchors)
    # Follow the games, starting from the anchors.
    edge = list(reached)
    while edge:
        new = opponents[edge.pop()] - reached
        reached |= new
        edge.extend(new)
    return (opponents.keys() | set(names)) - reached


def fit(scores: Sequence[Score], anchors: Mapping[str, float]) -> Fit:
    """Return the most likely ratings, with 95 % intervals from the curvature of the log-likelihood.

    `anchors`: name to fixed Elo, at least one. Players whom no chain of games connects to an anchor are left
    out.
    """
    # Ratings of unconnected players are undetermined: the curvature would have no inverse.
    outside = unconnected(scores, anchors)
    pairs = [score for score in scores if score.games and not outside & {score.first, score.second}]
    names = sorted({name for score in pairs for name in (score.first, score.second)} | anchors.keys())
    free = [name for name in names if name not in anchors]
    # Any starting point will do, because the likelihood has only one maximum.
    elo = np.array([float(anchors.get(name, 0.0)) for name in names])
    place = {name: index for index, name in enumerate(names)}
    first = np.array([place[score.first] for score in pairs], dtype=np.int64)
    second = np.array([place[score.second] for score in pairs], dtype=np.int64)
    played: Counter[str] = Counter()
    gained: defaultdict[str, float] = defaultdict(float)
    for score in pairs:
        for name, won in ((score.first, score.points), (score.second, score.games - score.points)):
            played[name] += score.games
            gained[name] += won
    # The prior: each free player's drawn games are spread over its opponents as its real games are.
    real = np.array([score.games for score in pairs], dtype=np.float64)
    prior = [
        sum(PRIOR_DRAWS * score.games / played[name] for name in (score.first, score.second) if name in free)
        for score in pairs
    ]
    games = real + np.array(prior, dtype=np.float64)
    # A drawn game is half a point for either side.
    points = np.array([score.points for score in pairs]) + (games - real) / 2
    rows = np.array([place[name] for name in free], dtype=np.int64)
    problem = _Problem(first, second, games, points, rows)
    elo = _maximise(problem, elo)
    # Invert for all free players together, because uncertainty about one player carries over to its
    # opponents.
    covariance = np.zeros((len(names), len(names)))
    covariance[np.ix_(rows, rows)] = np.linalg.inv(problem.curvature(elo))
    margins = Z95 * np.sqrt(np.diag(covariance))
    ratings = {
        name: Rating(float(elo[index]), float(margins[index]), played[name], gained[name])
        for index, name in enumerate(names)
    }
    return Fit(ratings, covariance)


@dataclass(frozen=True)
class _Problem:
    """The likelihood of all pairs as arrays. Its methods take `elo [players]`."""

    first: npt.NDArray[np.int64]
    """[pairs] index of one player."""
    second: npt.NDArray[np.int64]
    """[pairs] index of the other player."""
    games: Array
    """[pairs] number of games, including those of the prior."""
    points: Array
    """[pairs] points of the first player."""
    rows: npt.NDArray[np.int64]
    """[free] indices of the players whose rating is estimated."""

    def likelihood(self, elo: Array) -> float:
        """Return the logarithm of the likelihood."""
        odds = PER_ELO * (elo[self.first] - elo[self.second])
        # `logaddexp`, because log(1 + exp(odds)) overflows for players far apart.
        return float(np.sum(self.points * odds - self.games * np.logaddexp(0.0, odds)))

    def slope(self, elo: Array) -> Array:
        """Return [free] the derivative of the log-likelihood per Elo."""
        surplus = PER_ELO * (self.points - self.games * self._expected(elo))
        slope = np.zeros(len(elo))
        # `add.at`, because a player is in many pairs: `slope[first] += surplus` would count only one of them.
        np.add.at(slope, self.first, surplus)
        np.subtract.at(slope, self.second, surplus)
        return np.asarray(slope[self.rows])

    def curvature(self, elo: Array) -> Array:
        """Return [free, free] minus its second derivative."""
        share = self._expected(elo)
        weight = PER_ELO**2 * self.games * share * (1.0 - share)
        full = np.zeros((len(elo), len(elo)))
        np.add.at(full, (self.first, self.first), weight)
        np.add.at(full, (self.second, self.second), weight)
        np.subtract.at(full, (self.first, self.second), weight)
        np.subtract.at(full, (self.second, self.first), weight)
        return full[np.ix_(self.rows, self.rows)]

    def _expected(self, elo: Array) -> Array:
        return np.asarray(1.0 / (1.0 + np.exp(-PER_ELO * (elo[self.first] - elo[self.second]))))


def _maximise(problem: _Problem, elo: Array) -> Array:
    """Maximise the likelihood by Newton's method, starting from `elo [players]`. The likelihood is concave; a
    step that does not raise it is halved."""
    # If all players are anchors, there is nothing to fit.
    for _ in range(_STEPS if len(problem.rows) else 0):
        step = np.linalg.solve(problem.curvature(elo), problem.slope(elo))
        # Far from the maximum, Newton's step may be far too long, so limit it to 400 Elo.
        step *= min(1.0, 400.0 / max(float(np.abs(step).max()), 1e-12))
        before, moved = problem.likelihood(elo), elo
        # A smaller step would not change any displayed digit.
        while float(np.abs(step).max()) > 1e-7:
            moved = elo.copy()
            moved[problem.rows] += step
            if problem.likelihood(moved) > before:
                break
            step /= 2
        else:
            return elo
        elo = moved
    return elo


def chain_of(anchors: Sequence[str], players: Sequence[str]) -> list[Pair]:
    """Return pairs that connect everybody: neighbours among the anchors (weak to strong), the first anchor
    with the first player, and neighbours among the players."""
    pairs = list(pairwise(anchors))
    if players:
        pairs.append((anchors[0], players[0]))
    return pairs + list(pairwise(players))


def next_pair(
    names: Sequence[str],
    chain: Iterable[Pair],
    scores: Sequence[Score],
    anchors: Mapping[str, float],
    games: int,
    spent: Collection[Pair] = (),
) -> Pair | None:
    """Return the pairing for the next `games` games, of players in `names` (at least two).

    `chain`: pairs that connect all players, played in this order as long as they are needed. `spent`: pairs,
    in the order of `names`, that cannot play any more; returns None if no other pair is left. `scores` may
    include players that are not in `names`: their games count, but they play no more.
    """
    missing = unconnected(scores, anchors, names)
    # Connect everybody first: without ratings for both players, the information in a game is unknown.
    for first, second in chain:
        if first in missing or second in missing:
            return first, second
    found = fit(scores, anchors)
    # Games between two anchors tell nothing, because their ratings are fixed.
    pairs = [pair for pair in combinations(names, 2) if not set(pair) <= anchors.keys() and pair not in spent]
    return max(pairs, key=lambda pair: gain(found, pair[0], pair[1], games), default=None)


def gain(found: Fit, first: str, second: str, games: int) -> float:
    """Return by how much `games` games between two players would lower the sum of variances, Elo squared."""
    # The Fisher information of `games` results; the Sherman-Morrison formula gives the covariance after them.
    share = score_of_elo(found.ratings[first].elo - found.ratings[second].elo)
    information = PER_ELO**2 * games * share * (1.0 - share)
    one, other = (list(found.ratings).index(name) for name in (first, second))
    column = found.covariance[one] - found.covariance[other]
    variance = column[one] - column[other]
    return float(information * np.sum(column**2) / (1.0 + information * variance))
