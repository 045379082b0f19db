"""Measures things in short alternating turns, so that ratios are meaningful.

A machine that is busy with other work, or slower when it is warm, changes from minute to minute. Each turn
measures every side once, so that this affects all alike. A ratio is the median over all turns.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

TURNS = 5


@dataclass(frozen=True)
class Spread:
    """Median, least and most of repeated measurements."""

    median: float
    least: float
    most: float

    @staticmethod
    def of(values: Sequence[float]) -> Spread:
        """Raises ValueError without values."""
        if not values:
            raise ValueError("nothing was measured")
        return Spread(statistics.median(values), min(values), max(values))

    def text(self, format_spec: str = ",.0f") -> str:
        """`median (least to most)`"""
        median, least, most = (format(one, format_spec) for one in (self.median, self.least, self.most))
        return f"{median} ({least} to {most})"


T = TypeVar("T")


def in_turns(sides: Mapping[str, Callable[[], T]], turns: int = TURNS) -> dict[str, list[T]]:
    """Measure every side `turns` times, every other turn in reverse order.

    Returns for each side its results in the order of turns.
    """
    found: dict[str, list[T]] = {name: [] for name in sides}
    for turn in range(turns):
        for name in list(sides)[:: -1 if turn % 2 else 1]:
            found[name].append(sides[name]())
    return found


def ratio(over: Sequence[float], under: Sequence[float]) -> Spread:
    """The spread of `over / under`, turn by turn. Raises ValueError if the numbers of turns differ."""
    return Spread.of([a / b for a, b in zip(over, under, strict=True)])
