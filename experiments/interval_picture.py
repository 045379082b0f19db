"""A picture of a comparison: a panel for each figure, a line for each variant, with every run and the 95 %
interval of the mean."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from evaluation.plots import close, new_figure
from experiments.ablation_table import Runs, spread, values

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLUMNS = 2
"""Panels in a row."""
OWN, BASE = "#1f6fb2", "#666666"


class Bar(NamedTuple):
    """One variant in one panel."""

    variant: str
    runs: tuple[float, ...]
    mean: float
    around: float
    """Half the width of the interval of the mean; infinite if no variant was run twice."""


def bars(runs: Runs, base: str, figure: str) -> list[Bar]:
    """The lines of a panel, the base first."""
    known, found = spread(runs, figure), []
    for variant in dict.fromkeys([base, *(one["variant"] for one in runs)]):
        own = values(runs, variant, figure)
        if own:
            found.append(Bar(variant, tuple(own), sum(own) / len(own), known.around(len(own))))
    return found


def draw(runs: Runs, base: str, path: Path, *, scale: float = 1.0, unit: str = "") -> None:
    """Write the picture. `scale`: drawn numbers are figures times this, such as 100 for per cent."""
    figures = list(dict.fromkeys(figure for one in runs for figure in one["figures"]))
    columns = min(COLUMNS, len(figures))
    rows = -(-len(figures) // columns)
    height = 1.0 + 0.3 * len({one["variant"] for one in runs})
    picture, axes = new_figure(rows, columns, (6.0 * columns, height * rows))
    flat = list(axes.flat)
    for axis, figure in zip(flat, figures, strict=False):
        _draw_panel(axis, bars(runs, base, figure), base, scale)
        axis.set_title(figure, fontsize=10)
        axis.set_xlabel(unit)
    for axis in flat[len(figures) :]:
        axis.set_visible(False)
    picture.savefig(path, dpi=110)
    close(picture)


def _draw_panel(axis: Axes, lines: Sequence[Bar], base: str, scale: float) -> None:
    for place, one in enumerate(lines):
        colour = BASE if one.variant == base else OWN
        axis.plot([scale * run for run in one.runs], [place] * len(one.runs), "o", color=colour, alpha=0.35)
        around = scale * one.around if math.isfinite(one.around) else 0.0
        axis.errorbar(scale * one.mean, place, xerr=around, fmt="|", color=colour, capsize=4, markersize=12)
        if one.variant == base:
            axis.axvline(scale * one.mean, color=BASE, linewidth=0.8, linestyle=":")
    axis.set_yticks(range(len(lines)), [one.variant for one in lines], fontsize=8)
    axis.invert_yaxis()
    axis.grid(axis="x", alpha=0.3)
