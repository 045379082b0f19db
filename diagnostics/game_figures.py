"""What the newest games look like, as figures: searches, values, lengths, openings, age of weights."""

from __future__ import annotations

from typing import Any

from diagnostics.stretches import Stretch
from diagnostics.variety import OPENINGS, PERCENTILES


def figures_of_games(stretch: Stretch, lag: float | None) -> dict[str, Any]:
    """By the names of docs/protocol.md. All is None without games, and each figure that is not known.

    lag  weights versions that the newest games are behind
    """
    known, variety = stretch.games > 0, stretch.variety
    lengths = {f"p{percent}": variety.percentile(percent) if known else None for percent in PERCENTILES}
    openings = {f"ply_{plies}": rounded(variety.unique(plies)) if known else None for plies in OPENINGS}
    return {
        "search": {name: rounded(figure) for name, figure in stretch.roots.means().items()},
        "root_values": {
            "sure": rounded(stretch.saturated_share) if known else None,
            "sure_wrong": rounded(stretch.wrong_share) if known else None,
        },
        "lengths": lengths,
        "unique_openings": openings,
        "weights_age": lag,
    }


def rounded(figure: float | None) -> float | None:
    """To five digits after the point; None stays None."""
    return None if figure is None else round(figure, 5)
