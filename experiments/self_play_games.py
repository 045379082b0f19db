"""What the games of a run's self-play were like, over wall clock."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass

from games import get_game
from runtime.runs import RunFolder
from store.reader import Range, StoreReader
from store.rows import Stored

SPANS = 10


@dataclass(frozen=True)
class Span:
    """A tenth of a run's games."""

    minute: float
    """When its last game came."""
    games: int
    decisive: float
    """Share of games that somebody won."""
    mean_plies: float
    mates: float
    """Share of games that ended by checkmate (chess)."""
    capped: float
    """Share of games that their length ended."""


def spans(folder: RunFolder) -> list[Span]:
    """A run's games from the usual start in SPANS equal parts, oldest first; fewer if there are few games.

    Games from other starts (won endgames, say) are left out: they would flatter the share of decisive ones.
    """
    with closing(StoreReader(folder.games)) as reader:
        sound = reader.sound(get_game(reader.game), Range())
        games = [stored for stored, record in sound if record.start == ""]
    size = max(1, -(-len(games) // SPANS))
    began = games[0].received_at if games else 0.0
    return [_span(games[first : first + size], began) for first in range(0, len(games), size)]


def _span(games: list[Stored], began: float) -> Span:
    count = len(games)
    return Span(
        minute=(games[-1].received_at - began) / 60,
        games=count,
        decisive=sum(game.outcome != 0 for game in games) / count,
        mean_plies=sum(game.plies for game in games) / count,
        mates=sum(game.reason == "checkmate" for game in games) / count,
        capped=sum(game.reason == "ply_cap" for game in games) / count,
    )
