"""How a run's own games ended, over time."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass

from experiments.measures import Judgement, share
from games.knowledge import knowledge_of
from games.spec import PLY_CAP, Game
from runtime.runs import RunFolder
from store.reader import Range, StoreReader
from store.rows import Stored

SPANS = 10
"""Number of parts of a run."""
SHARES, PLIES = "share of self-play games", "plies of a self-play game"
PANELS = (SHARES, PLIES)
"""Panels whose minutes are of the wall clock since the first game: the store knows no other clock."""


@dataclass(frozen=True)
class Span:
    """A tenth of a run's self-play games."""

    minute: float
    """Minutes of the wall clock from the first game to its last one."""
    games: int
    decisive: float
    """Share of games that were won."""
    mean_plies: float
    mates: float
    """Share of games that ended by mate; 0 in a game without mates."""
    capped: float
    """Share of games that ended by the ply cap."""


def spans(game: Game, folder: RunFolder) -> list[Span]:
    """A run's games from the usual start in SPANS equal parts, oldest first; fewer if there are few games.

    Games from other starts, such as won endgames, are left out: they would raise the share of decisive games.
    """
    with closing(StoreReader(folder.games)) as reader:
        games = [stored for stored, record in reader.sound(game, Range()) if record.start == ""]
    size = max(1, -(-len(games) // SPANS))
    began = games[0].received_at if games else 0.0
    mate = knowledge_of(game).matches.mate
    return [_span(games[first : first + size], began, mate) for first in range(0, len(games), size)]


def _span(games: list[Stored], began: float, mate: str) -> Span:
    count = len(games)
    return Span(
        minute=(games[-1].received_at - began) / 60,
        games=count,
        decisive=sum(game.outcome != 0 for game in games) / count,
        mean_plies=sum(game.plies for game in games) / count,
        mates=sum(game.reason == mate for game in games) / count,
        capped=sum(game.reason == PLY_CAP for game in games) / count,
    )


def add_self_play(found: Judgement, parts: Sequence[Span]) -> None:
    """The curve of all parts, and the share of decisive games in the last one."""
    for part in parts:
        for label, value in (("decisive", part.decisive), ("mates", part.mates), (PLY_CAP, part.capped)):
            found.add_point(SHARES, label, part.minute, value)
        found.add_point(PLIES, "mean", part.minute, part.mean_plies)
    if parts:
        last = parts[-1]
        hits = round(last.decisive * last.games)
        what = "decisive games in the last tenth of self-play"
        found.measures.append(share(what, "self-play", hits, last.games))
        rising = sum(part.decisive for part in parts[-3:]) / len(parts[-3:])
        before = sum(part.decisive for part in parts[:-3]) / max(1, len(parts[:-3]))
        found.notes.append(
            f"decisive share: {before:.1%} before the last three tenths of self-play, {rising:.1%} in them"
        )
