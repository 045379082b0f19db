"""Charts of what searches add to what the network knows. A figure that no game of a bin tells is left out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from diagnostics.roots import RootSums
from report.drawing import Chart, chart, lines, name_places

if TYPE_CHECKING:
    from matplotlib.axes import Axes

VERSIONS = "weights version"
CHARTS = (
    (
        "What the search adds",
        "KL of the visits and the network's priors, mean over policy targets. Below 0.05 it adds nothing, "
        "and nothing is learned from it.",
        {"kl": "KL of visits and priors"},
        "nats",
    ),
    (
        "Sure of a move",
        "Share of the visits that the most visited move has; and how often that is not the network's first "
        "choice.",
        {"top_share": "share of the most visited move", "differs": "not the network's choice"},
        "share",
    ),
    (
        "Values before and after the search",
        "Mean distance of the network's own value of the root and that of the search.",
        {"value_shift": "|after - before|"},
        "value",
    ),
    (
        "Depth of the search",
        "Plies that simulations went down, in the mean, and the deepest of all.",
        {"mean_depth": "mean", "max_depth": "deepest"},
        "plies",
    ),
)
"""(title, how to read it, label of each of RootSums.means, unit)."""


def search_charts(labels: Sequence[str], found: Sequence[RootSums]) -> list[Chart]:
    """A place on the x axis for each label; none for runs whose records tell nothing of it."""
    means = [sums.means() for sums in found]
    charts = []
    for title, caption, names, unit in CHARTS:
        curves = {label: known([mean[name] for mean in means]) for name, label in names.items()}
        if any(places for places, _ in curves.values()):
            charts.append(chart(title, caption, _drawer(labels, curves, unit)))
    return charts


def known(values: Sequence[float | None]) -> tuple[list[float], list[float]]:
    """Places and values of those that are known."""
    pairs = [(float(place), value) for place, value in enumerate(values) if value is not None]
    return [place for place, _ in pairs], [value for _, value in pairs]


def _drawer(
    labels: Sequence[str], curves: dict[str, tuple[list[float], list[float]]], unit: str
) -> Callable[[Axes], None]:
    def draw(axis: Axes) -> None:
        lines(axis, curves, VERSIONS, unit, zero=True)
        name_places(axis, labels, VERSIONS)

    return draw
