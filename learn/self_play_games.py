"""What the games of a run's self-play were like, over wall clock."""

from __future__ import annotations

from dataclasses import dataclass

from play.games.reading import GamesFile
from runtime.runs import RunFolder

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
    """A run's games in SPANS equal parts, oldest first; fewer if there are few games."""
    file = GamesFile(folder.games)
    try:
        rows = file.query("SELECT outcome, reason, plies, received_at FROM games ORDER BY seq")
    finally:
        file.close()
    size = max(1, -(-len(rows) // SPANS))
    began = rows[0][3] if rows else 0.0
    return [_span(rows[first : first + size], began) for first in range(0, len(rows), size)]


def _span(rows: list[tuple[int, str, int, float]], began: float) -> Span:
    count = len(rows)
    return Span(
        minute=(rows[-1][3] - began) / 60,
        games=count,
        decisive=sum(outcome != 0 for outcome, *_ in rows) / count,
        mean_plies=sum(plies for _, _, plies, _ in rows) / count,
        mates=sum(reason == "checkmate" for _, reason, *_ in rows) / count,
        capped=sum(reason == "ply_cap" for _, reason, *_ in rows) / count,
    )
