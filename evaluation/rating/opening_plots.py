"""A panel for each opening: its share of the self-play games over training, with 95 % intervals."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from evaluation.rating.openings_count import Bin, wilson
from evaluation.rating.plots import BLUE, new_figure, save

COLUMNS = 4


def draw_openings(folder: Path, title: str, bins: Sequence[Bin], names: Sequence[str]) -> list[Path]:
    """Each panel has its own scale from 0, as shares differ by factors of a hundred."""
    rows = -(-len(names) // COLUMNS)
    figure, panels = new_figure(rows, COLUMNS, (14, 1.2 + 2.5 * rows))
    figure.suptitle(title)
    middles = [one.middle for one in bins]
    for index, panel in enumerate(panels.flat):
        if index >= len(names):
            panel.set_visible(False)
            continue
        counts = [one.counts.get(names[index], 0) for one in bins]
        shares = [100 * count / one.games for count, one in zip(counts, bins, strict=True)]
        limits = [wilson(count, one.games) for count, one in zip(counts, bins, strict=True)]
        low, high = [100 * one[0] for one in limits], [100 * one[1] for one in limits]
        panel.fill_between(middles, low, high, color=BLUE, alpha=0.2, linewidth=0, label="95 % interval")
        panel.plot(middles, shares, color=BLUE, marker="o", markersize=3, label="share of the games")
        panel.set_title(names[index], fontsize=10)
        panel.grid(visible=True, color="#dddddd", linewidth=0.6)
        panel.set_ylim(0, max(1.0, 1.05 * max(high)))
        if index % COLUMNS == 0:
            panel.set_ylabel("share of games [%]")
        if index + COLUMNS >= len(names):
            panel.set_xlabel("weights version at the first move")
    panels[0][0].legend(loc="best", fontsize=8)
    return save(figure, folder, "openings")
