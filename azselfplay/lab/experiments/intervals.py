"""Means over seeds and differences from the base, with intervals for few seeds: as a table and as a picture.

Three runs of one variant say little about its spread; the runs of all variants together say more. So all
variants are assumed to have the same spread (pooled variance, as in an analysis of variance), and Student's t
has the degrees of freedom of all runs. Runs without any error cannot spread, so variants whose runs are all
alike are left out of the pooled variance.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

T95 = (
    math.inf,
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)
"""Two-sided 95 % quantile of Student's t by degrees of freedom, from 0; for more degrees, the last one
counts."""

OWN, BASE = "#1f6fb2", "#666666"

Runs = Sequence[Mapping[str, Any]]


class Spread(NamedTuple):
    """The spread of the runs of one variant."""

    deviation: float
    """Standard deviation of a run."""
    freedom: int
    """Degrees of freedom of this estimate."""

    def around(self, *counts: int) -> float:
        """Half the width of the 95 % interval of a mean over `counts[0]` runs, or of the difference of two
        such means; infinite if no two runs of a variant differ."""
        if not self.freedom:
            return math.inf
        # Beyond the table, t hardly changes.
        t = T95[min(self.freedom, len(T95) - 1)]
        return t * self.deviation * math.sqrt(sum(1 / count for count in counts))


def values(runs: Runs, variant: str, figure: str) -> list[float]:
    """Return the figure of every run of the variant that has this figure."""
    own = [one["figures"] for one in runs if one["variant"] == variant]
    return [figures[figure] for figures in own if figure in figures]


def figure_names(runs: Runs) -> list[str]:
    """Return the names of all figures; runs may have been judged by different ones."""
    return list(dict.fromkeys(figure for one in runs for figure in one["figures"]))


def spread(runs: Runs, figure: str) -> Spread:
    """Return the spread, pooled over all variants whose runs differ."""
    squares, freedom = 0.0, 0
    for variant in {one["variant"] for one in runs}:
        own = values(runs, variant, figure)
        # Runs that are all alike, such as those without any error, say nothing about the spread.
        if len(set(own)) < 2:
            continue
        mean = sum(own) / len(own)
        squares += sum((value - mean) ** 2 for value in own)
        freedom += len(own) - 1
    return Spread(math.sqrt(squares / freedom) if freedom else 0.0, freedom)


def table(runs: Runs, base: str) -> str:
    """Return a Markdown table, the base first, because all variants are compared with it. Figures are shares,
    printed as per cent."""
    variants = list(dict.fromkeys([base, *(one["variant"] for one in runs)]))
    spreads = {figure: spread(runs, figure) for figure in figure_names(runs)}
    head = ["variant", "seeds", "games", "steps", *spreads]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for variant in variants:
        own = [one for one in runs if one["variant"] == variant]
        cells, empty = [variant, str(len(own))], sum(not one["games"] for one in own)
        for key in ("games", "steps"):
            text = f"{sum(one[key] for one in own) / len(own):,.0f}"
            if key == "games" and empty:  # in words: the figures are those of an untrained network then
                none = "no games"
                text = none if empty == len(own) else f"{text} ({none} in {empty} of {len(own)})"
            cells.append(text)
        for figure, known in spreads.items():
            mine, others = values(runs, variant, figure), values(runs, base, figure)
            if not mine:
                cells.append("")
                continue
            mean = sum(mine) / len(mine)
            text = f"{100 * mean:.1f} ± {_interval(known, len(mine))} %"
            if variant != base and others:
                change = mean - sum(others) / len(others)
                text += f" ({100 * change:+.1f} ± {_interval(known, len(mine), len(others))})"
            cells.append(text)
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def remarks(runs: Runs) -> str:
    """Return remarks that readers of the table must know, one paragraph each; "" if there are none."""
    texts = []
    empty = [f"{one['variant']} (seed {one['seed']})" for one in runs if not one["games"]]
    if empty:
        texts.append(
            f"**Warning:** no games were finished by {', '.join(empty)}. The figures there are those of an "
            "untrained network: give more `--minutes`."
        )
    if len({one["seed"] for one in runs}) < 2:
        texts.append("`-`: an interval takes two seeds or more.")
    elif not all(spread(runs, figure).freedom for figure in figure_names(runs)):
        texts.append("`-`: no interval, because no two runs of a variant differ.")
    return "".join(f"{text}\n\n" for text in texts)


def _interval(known: Spread, *counts: int) -> str:
    """Return the interval in per cent; "-" if no two runs of a variant differ."""
    return f"{100 * known.around(*counts):.1f}" if known.freedom else "-"


def draw(runs: Runs, base: str, path: Path, *, scale: float = 1.0, unit: str = "") -> None:
    """Write the picture. `scale`: factor from figures to drawn numbers, such as 100 for per cent."""
    from azselfplay.play.plots import close, grid_of

    figures = figure_names(runs)
    # The height grows with the number of variants, so that their lines stay apart.
    picture, axes = grid_of(len(figures), (6.0, 1.0 + 0.3 * len({one["variant"] for one in runs})))
    for axis, figure in zip(axes, figures, strict=False):
        known = spread(runs, figure)
        variants = dict.fromkeys([base, *(one["variant"] for one in runs)])
        lines = {variant: own for variant in variants if (own := values(runs, variant, figure))}
        for place, (variant, own) in enumerate(lines.items()):
            colour = BASE if variant == base else OWN
            axis.plot([scale * run for run in own], [place] * len(own), "o", color=colour, alpha=0.35)
            mean = scale * sum(own) / len(own)
            # If no two runs of a variant differ, there is no interval.
            around = scale * known.around(len(own)) if known.freedom else 0.0
            axis.errorbar(mean, place, xerr=around, fmt="|", color=colour, capsize=4, markersize=12)
            if variant == base:
                axis.axvline(mean, color=BASE, linewidth=0.8, linestyle=":")
        axis.set_yticks(range(len(lines)), list(lines), fontsize=8)
        axis.invert_yaxis()  # the base on top, as in the table
        axis.grid(axis="x", alpha=0.3)
        axis.set_title(figure, fontsize=10)
        axis.set_xlabel(unit)
    picture.savefig(path, dpi=110)
    close(picture)
