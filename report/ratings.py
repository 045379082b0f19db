"""The curve of Elo, if `azplay ladder` has rated networks of the run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from evaluation.book import Entrant
from evaluation.plots import ELO
from report.drawing import COLOURS, Chart, chart
from runtime.reading import read_struct

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Rating(Struct, frozen=True):
    elo: float
    margin95: float


class Rated(Struct, frozen=True):
    """The parts of ratings.json that a report needs."""

    players: list[Entrant] = []
    ratings: dict[str, Rating] = {}


def read_ratings(path: Path) -> Rated | None:
    """The ratings in a file; None if there is no such file or it cannot be read."""
    try:
        return read_struct(path, Rated)
    except (OSError, ValueError):
        return None


def curves_of(rated: Rated) -> dict[tuple[int, str], list[tuple[int, Rating]]]:
    """`(step, rating)` of the networks by (simulations, search)."""
    curves: dict[tuple[int, str], list[tuple[int, Rating]]] = {}
    for player in rated.players:
        if player.version is not None and player.name in rated.ratings:
            point = (player.step or 0, rated.ratings[player.name])
            curves.setdefault((player.simulations, player.search), []).append(point)
    return curves


def rating_charts(rated: Rated | None) -> list[Chart]:
    """A chart with a curve for each search."""
    curves = curves_of(rated) if rated is not None else {}
    if not curves:
        return []

    def draw(axis: Axes) -> None:
        for ((simulations, search), points), colour in zip(sorted(curves.items()), COLOURS * 4, strict=False):
            points.sort(key=lambda point: point[0])
            steps, marks = [step for step, _ in points], [rating for _, rating in points]
            axis.errorbar(
                steps, [mark.elo for mark in marks], yerr=[mark.margin95 for mark in marks],
                color=colour, marker="o", markersize=3, capsize=2,
                label=f"{simulations} simulations a move, {search}",
            )  # fmt: skip
        axis.set_xlabel("training step")
        axis.set_ylabel(ELO)

    caption = (
        "From RUN/ratings.json (azplay ladder), with 95 % intervals. The one curve that says how it plays."
    )
    return [chart("Strength", caption, draw)]
