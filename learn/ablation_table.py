"""Means over seeds, and differences from the base seed by seed, with intervals for few seeds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

T95 = (math.inf, 12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)
"""Two-sided 95 % quantile of Student's t by degrees of freedom, from 0; beyond the end the last one."""


def interval(values: Sequence[float]) -> tuple[float, float]:
    """(mean, half width of the 95 % interval of the mean); infinite for one value. ValueError for none."""
    count = len(values)
    if count == 0:
        raise ValueError("nothing was measured")
    mean = sum(values) / count
    if count == 1:
        return mean, math.inf
    variance = sum((value - mean) ** 2 for value in values) / (count - 1)
    return mean, T95[min(count - 1, len(T95) - 1)] * math.sqrt(variance / count)


def differences(runs: Sequence[Mapping[str, Any]], base: str, variant: str, figure: str) -> list[float]:
    """Of a figure from the base's, for each seed that both have."""
    found = {(one["variant"], one["seed"]): one["figures"][figure] for one in runs}
    seeds = sorted({one["seed"] for one in runs})
    return [
        found[variant, seed] - found[base, seed]
        for seed in seeds
        if (variant, seed) in found and (base, seed) in found
    ]


def table(runs: Sequence[Mapping[str, Any]], base: str) -> str:
    """Markdown, the base first. Figures are shares and printed as per cent."""
    variants = list(dict.fromkeys([base, *(one["variant"] for one in runs)]))
    figures = list(runs[0]["figures"])
    head = ["variant", "seeds", "games", "steps", *figures]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for variant in variants:
        own = [one for one in runs if one["variant"] == variant]
        cells = [
            variant,
            str(len(own)),
            *(f"{sum(one[key] for one in own) / len(own):,.0f}" for key in ("games", "steps")),
        ]
        for figure in figures:
            mean, half = interval([one["figures"][figure] for one in own])
            text = f"{100 * mean:.1f} ± {100 * half:.1f} %"
            if variant != base:
                change, around = interval(differences(runs, base, variant, figure))
                text += f" ({100 * change:+.1f} ± {100 * around:.1f})"
            cells.append(text)
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)
