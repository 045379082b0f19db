"""Charts as images inside the page."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from evaluation.plots import new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SIZE = (4.9, 3.0)
"""Inches."""
COLOURS = ("#1f6fb2", "#d9822b", "#3a9d5d", "#b2452f", "#7d5ba6", "#8c8c8c", "#c9a227", "#4aa3a2")


@dataclass(frozen=True)
class Chart:
    """An image with title and caption."""

    title: str
    caption: str
    """How to read it."""
    source: str
    """`data:` URI."""


def svg_uri(svg: bytes) -> str:
    return "data:image/svg+xml;base64," + base64.b64encode(svg).decode()


def chart(title: str, caption: str, draw: Callable[[Axes], None]) -> Chart:
    """A chart with one panel, which `draw` fills."""
    import matplotlib as mpl
    from matplotlib import pyplot as plt

    figure, panels = new_figure(1, 1, SIZE)
    axis = panels[0][0]
    draw(axis)
    axis.set_axisbelow(True)
    axis.grid(visible=True, color="#e4e4e4", linewidth=0.6)
    handles, _ = axis.get_legend_handles_labels()
    if len(handles) > 1:
        axis.legend(loc="best", fontsize=8, framealpha=0.85)
    stream = io.BytesIO()
    # Text stays text, which is a tenth of the size and can be searched.
    with mpl.rc_context({"svg.fonttype": "none"}):
        figure.savefig(stream, format="svg", metadata={"Date": None})
    plt.close(figure)
    return Chart(title, caption, svg_uri(stream.getvalue()))


def lines(
    axis: Axes,
    curves: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    x: str,
    y: str,
    *,
    zero: bool = False,
) -> None:
    """Draw (places, values) by label; `zero`: the y axis begins at 0."""
    for (label, (places, values)), colour in zip(curves.items(), COLOURS, strict=False):
        marker = "o" if len(places) <= 40 else None
        axis.plot(places, values, color=colour, marker=marker, markersize=3, linewidth=1.3, label=label)
    axis.set_xlabel(x)
    axis.set_ylabel(y)
    if zero:
        highest = max((max(values, default=0.0) for _, values in curves.values()), default=0.0)
        axis.set_ylim(0, 1.08 * highest or 1.0)


def areas(
    axis: Axes,
    labels: Sequence[str],
    shares: Mapping[str, Sequence[float]],
    x: str,
    colours: Sequence[str] = COLOURS,
) -> None:
    """Draw shares that sum to 1, stacked; `labels` are the places on the x axis."""
    places: list[float] = list(range(len(labels)))
    wide = {name: list(values) for name, values in shares.items()}
    if len(labels) == 1:
        # An area needs two places.
        places, wide = [-0.5, 0.5], {name: values * 2 for name, values in wide.items()}
    axis.stackplot(places, *wide.values(), labels=list(wide), colors=list(colours), alpha=0.85)
    axis.set_ylim(0, 1)
    axis.set_xlim(places[0], places[-1])
    axis.set_ylabel("share of games")
    name_places(axis, labels, x)


def over_bins(
    axis: Axes,
    labels: Sequence[str],
    curves: Mapping[str, Sequence[float]],
    x: str,
    y: str,
    *,
    zero: bool = True,
) -> None:
    """Draw curves with a point for each label."""
    places = list(range(len(labels)))
    lines(axis, {name: (places, values) for name, values in curves.items()}, x, y, zero=zero)
    name_places(axis, labels, x)


def curves(
    found: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    x: str,
    y: str,
    labels: Sequence[str] = (),
    *,
    zero: bool = False,
) -> Callable[[Axes], None]:
    """A function for `chart` that draws curves; `labels` name the places 0, 1, ... on the x axis."""
    there = {label: curve for label, curve in found.items() if curve[0]}

    def draw(axis: Axes) -> None:
        lines(axis, there, x, y, zero=zero or bool(labels))
        if labels:
            name_places(axis, labels, x)

    return draw


def name_places(axis: Any, labels: Sequence[str], x: str) -> None:
    """Write labels below the axis, as many as there is room for."""
    every = max(1, -(-len(labels) // 12))
    places = list(range(0, len(labels), every))
    axis.set_xticks(places)
    axis.set_xticklabels([labels[place] for place in places], fontsize=8, rotation=30 if every > 1 else 0)
    axis.set_xlabel(x)
