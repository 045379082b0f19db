"""Chooses the next pairing, and plays pairings until there are enough games.

First comes a chain that connects all players. Then always the pairing whose games lower the sum of the
squared errors of all ratings most (A-optimal design). Games between players far apart tell little (`p (1 -
p)` is small), and so do games between two whose difference is well known. So it chooses players with similar
ratings and those about whom least is known, such as new weights.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

import numpy as np

from evaluation.match.elo import score_of_elo
from evaluation.rating.book import Book
from evaluation.rating.bradley_terry import PER_ELO, Array, Fit, Score, fit, unconnected

Pair = tuple[str, str]

PlayPairing = Callable[[str, str, int, int], Awaitable[Score]]
"""`(first, second, openings to skip, openings) -> score`; each opening is played from both sides."""


@dataclass(frozen=True)
class Goal:
    """When a tournament is over."""

    games: int
    """Games of each rated player, on average."""
    openings: int
    """Openings that a pairing plays before the next pairing is chosen; twice as many games."""
    most_openings: int = 1_000_000
    """Number of available openings. A pairing that has used them all plays no more."""


def is_over(book: Book, names: Sequence[str], anchors: Mapping[str, float], goal: Goal) -> bool:
    """Whether all are connected to an anchor, and all but the anchors have played their games."""
    free = [name for name in names if name not in anchors]
    return not unconnected(book.scores(), anchors, names) and games_of(book, free) >= goal.games * len(free)


def games_of(book: Book, names: Sequence[str]) -> int:
    """Games of all these players; a game between two of them counts for each."""
    return sum(score.games * ((score.first in names) + (score.second in names)) for score in book.scores())


async def play_on(
    book: Book,
    names: Sequence[str],
    chain: Sequence[Pair],
    anchors: Mapping[str, float],
    goal: Goal,
    play: PlayPairing,
    finishing: Callable[[], bool],
) -> None:
    """Play until the goal is reached, or `finishing()` after a pairing. Each pairing is saved at once."""
    while not finishing() and not is_over(book, names, anchors, goal):
        spent = {
            pair for pair in combinations(names, 2) if book.pairing(*pair).openings >= goal.most_openings
        }
        pair = next_pair(names, chain, book.scores(), anchors, 2 * goal.openings, spent)
        if pair is None:
            print("all pairings have played all openings; more games need more openings", file=sys.stderr)
            return
        used = book.pairing(*pair).openings
        count = min(goal.openings, goal.most_openings - used)
        book.add(await play(*pair, used, count), count)
        book.save(anchors)


def next_pair(
    names: Sequence[str],
    chain: Iterable[Pair],
    scores: Iterable[Score],
    anchors: Mapping[str, float],
    games: int,
    spent: Collection[Pair] = (),
) -> Pair | None:
    """The pairing for the next `games` games between players in `names` (at least two).

    `chain`: pairs that connect all of them, played in this order as long as they are needed. `spent`: pairs,
    in the order of `names`, that cannot play any more; returns None if there is no other. `scores` may
    include players that are not in `names`: they count, but play no more.
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
    share = score_of_elo(found.ratings[first].elo - found.ratings[second].elo)
    information = PER_ELO**2 * games * share * (1.0 - share)
    column = found.spread(first, second)
    variance = _variance(found, column, first, second)
    return float(information * np.sum(column**2) / (1.0 + information * variance))


def _variance(found: Fit, column: Array, first: str, second: str) -> float:
    """Variance of the difference between two players, Elo squared."""
    signs = ((first, 1.0), (second, -1.0))
    return float(sum(sign * column[found.free.index(name)] for name, sign in signs if name in found.free))


def chain_of(anchors: Sequence[str], players: Sequence[str]) -> list[Pair]:
    """Neighbours among the anchors (weak to strong), the first of both, neighbours among the players."""
    pairs = list(pairwise(anchors))
    if players:
        pairs.append((anchors[0], players[0]))
    return pairs + list(pairwise(players))
