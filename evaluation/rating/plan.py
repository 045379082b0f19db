"""Which pairing to play next: first a chain that connects all players, then what narrows intervals most.

Two players far apart in strength tell little (`p (1 - p)` is small), and neither do two whose difference
is known well. After the chain, the pairing is taken whose games would lower the sum of the squared
errors of all ratings most (A-optimal design): it falls on neighbours and on players of nearby ratings,
and on those of whom least is known, such as weights that have just arrived.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import combinations, pairwise

import numpy as np

from evaluation.rating.bradley_terry import PER_ELO, Array, Fit, Score, expected, fit, unconnected

Pair = tuple[str, str]


def next_pair(
    names: Sequence[str],
    chain: Iterable[Pair],
    scores: Iterable[Score],
    anchors: Mapping[str, float],
    games: int,
    spent: Collection[Pair] = (),
) -> Pair | None:
    """The pairing for the next `games` games between players in `names` (at least two).

    `chain`: pairs that connect all of them, played in this order as long as they are needed.
    `spent`: pairs, in the order of `names`, that cannot play more; None if there is no other.
    `scores` may have players that are not in `names`: they count, but play no more.
    """
    known = list(scores)
    missing = set(unconnected(known, anchors, names))
    for first, second in chain:
        if first in missing or second in missing:
            return first, second
    if stray := missing & set(names):
        raise ValueError(f"the chain does not connect {', '.join(sorted(stray))}")
    known = [score for score in known if not missing & {score.first, score.second}]
    found = fit(known, anchors)
    pairs = [pair for pair in combinations(names, 2) if not set(pair) <= anchors.keys() and pair not in spent]
    return max(pairs, key=lambda pair: gain(found, pair[0], pair[1], games), default=None)


def gain(found: Fit, first: str, second: str, games: int) -> float:
    """By how much `games` games between two players would lower the sum of variances, Elo squared."""
    share = expected(found.ratings[first].elo - found.ratings[second].elo)
    information = PER_ELO**2 * games * share * (1.0 - share)
    column = found.spread(first, second)
    variance = _variance(found, column, first, second)
    return float(information * np.sum(column**2) / (1.0 + information * variance))


def _variance(found: Fit, column: Array, first: str, second: str) -> float:
    """Of the difference between two players, Elo squared."""
    signs = ((first, 1.0), (second, -1.0))
    return float(sum(sign * column[found.free.index(name)] for name, sign in signs if name in found.free))


def chain_of(anchors: Sequence[str], players: Sequence[str]) -> list[Pair]:
    """Neighbours among the anchors (weak to strong), the first of both, neighbours among the players."""
    pairs = list(pairwise(anchors))
    if players:
        pairs.append((anchors[0], players[0]))
    return pairs + list(pairwise(players))
