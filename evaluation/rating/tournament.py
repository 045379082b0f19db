"""Plays the most telling pairing, writes it down, and so on until there are games enough.

How a pairing is played is given to it, so that the choice can be tested without a game.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from evaluation.rating.book import Book
from evaluation.rating.bradley_terry import Score, unconnected
from evaluation.rating.plan import Pair, next_pair

PlayPairing = Callable[[str, str, int, int], Awaitable[Score]]
"""`(first, second, openings to leave out, openings) -> score`; each opening is played from both sides."""


@dataclass(frozen=True)
class Goal:
    """When a tournament is over."""

    games: int
    """Games of each player that is rated, on average."""
    openings: int
    """Openings of one pairing before the next is chosen; twice as many games."""
    most_openings: int = 1_000_000
    """Openings there are: a pairing that has used them up plays no more."""


def is_over(book: Book, names: Sequence[str], anchors: Mapping[str, float], goal: Goal) -> bool:
    """All are connected to an anchor, and those that are no anchors have played their games."""
    free = [name for name in names if name not in anchors]
    return not unconnected(book.scores(), anchors, names) and games_of(book, free) >= goal.games * len(free)


def games_of(book: Book, names: Sequence[str]) -> int:
    """Games of all these players, a game between two of them counted for each."""
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
            return
        used = book.pairing(*pair).openings
        count = min(goal.openings, goal.most_openings - used)
        book.add(await play(*pair, used, count), count)
        book.save(anchors)
