"""Curves as PNG: one panel a measure, one line a label, one dash style a seed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from evaluation.rating.plots import close, new_figure
from experiments.measures import Judgement

STYLES = ("-", "--", ":", "-.")
COLOURS = ("#1f6fb2", "#d9822b", "#3a9a5b", "#9b4f96", "#666666")
COLUMNS = 2


def draw(judgements: Mapping[int, Judgement], title: str, path: Path) -> None:
    """All panels of all seeds into one file."""
    panels = list(dict.fromkeys(panel for one in judgements.values() for panel in one.curves))
    columns = max(1, min(COLUMNS, len(panels)))
    rows = max(1, -(-len(panels) // columns))
    figure, axes = new_figure(rows, columns, (6.0 * columns, 3.6 * rows))
    flat = list(axes.flat)
    for axis, panel in zip(flat, panels, strict=False):
        labels = list(
            dict.fromkeys(label for one in judgements.values() for label in one.curves.get(panel, {}))
        )
        for style, (seed, judgement) in zip(STYLES, judgements.items(), strict=False):
            for label, points in judgement.curves.get(panel, {}).items():
                minutes, values = [minute for minute, _ in points], [value for _, value in points]
                colour = COLOURS[labels.index(label) % len(COLOURS)]
                name = f"{label}, seed {seed}"
                axis.plot(minutes, values, style, color=colour, marker="o", markersize=3, label=name)
        axis.set_title(panel, fontsize=10)
        axis.set_xlabel("minutes of self-play and training")
        axis.set_ylim(bottom=min(0.0, axis.get_ylim()[0]))
        axis.grid(alpha=0.3)
        axis.legend(fontsize=7)
    for axis in flat[len(panels) :]:
        axis.set_visible(False)
    figure.suptitle(title)
    figure.savefig(path, dpi=110)
    close(figure)
