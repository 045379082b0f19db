"""Which opening a game has, and the share of each over training.

The game says which they are (`games.knowledge`). A game of self-play counts for an opening if it begins with
just its moves (transpositions do not count), so none counts twice. Where none are named, first moves count.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from games.game_history import GameHistory, replay
from games.knowledge import knowledge_of
from games.spec import Game

WILSON = 1.959964
"""Standard deviations of a 95 % interval."""


@dataclass(frozen=True)
class Bin:
    """Games begun by a range of weights versions."""

    first_version: int
    last_version: int
    games: int
    counts: dict[str, int]
    """Games by opening."""

    @property
    def middle(self) -> float:
        return (self.first_version + self.last_version) / 2


def openings_of(game: Game) -> dict[str, tuple[int, ...]]:
    """Names and actions of the openings that are counted in a game."""
    named = knowledge_of(game).counted_openings
    if named:
        return {name: tuple(replay(game, "", moves.split()).actions) for name, moves in named.items()}
    game_history = GameHistory(game)
    texts = [
        (game.notation.action_to_text(game_history.state, int(a)), int(a))
        for a in game_history.legal_actions()
    ]
    return {f"first move {text}": (action,) for text, action in texts}


def opening_in(actions: Sequence[int], openings: Mapping[str, tuple[int, ...]]) -> str | None:
    """Name of the opening that a game begins with; of several the longest."""
    fitting = [name for name, moves in openings.items() if tuple(actions[: len(moves)]) == moves]
    return max(fitting, key=lambda name: len(openings[name]), default=None)


def binned(games: Iterable[tuple[int, str | None]], bins: int) -> list[Bin]:
    """`(weights version, opening)` of all games -> at most `bins` ranges of about as many games each.

    A version is never split, so that early versions, which play many games, have bins of their own.
    """
    versions: dict[int, dict[str | None, int]] = {}
    for version, name in games:
        counts = versions.setdefault(version, {})
        counts[name] = counts.get(name, 0) + 1
    total = sum(sum(counts.values()) for counts in versions.values())
    found: list[list[int]] = []
    seen = 0
    for version in sorted(versions):
        if not found or seen * bins >= total * len(found):
            found.append([])
        found[-1].append(version)
        seen += sum(versions[version].values())
    return [_bin(group, versions) for group in found]


def _bin(group: list[int], versions: Mapping[int, Mapping[str | None, int]]) -> Bin:
    counts: dict[str, int] = {}
    for version in group:
        for name, games in versions[version].items():
            if name is not None:
                counts[name] = counts.get(name, 0) + games
    total = sum(sum(versions[version].values()) for version in group)
    return Bin(group[0], group[-1], total, counts)


def wilson(count: int, games: int) -> tuple[float, float]:
    """95 % interval of a share that was `count` of `games`, by Wilson's score; never outside [0, 1]."""
    if not games:
        return 0.0, 1.0
    share, square = count / games, WILSON**2
    middle = (share + square / (2 * games)) / (1 + square / games)
    spread = share * (1 - share) / games + square / (4 * games**2)
    half = WILSON * float(np.sqrt(spread)) / (1 + square / games)
    return max(0.0, middle - half), min(1.0, middle + half)
