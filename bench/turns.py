"""Measures things in short alternating turns, so that ratios are meaningful.

The speed of a machine changes from minute to minute, because of other work or of its temperature. Each turn
measures every side once, so that such changes affect all sides alike. A ratio is the median over all turns.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

TURNS = 5


@dataclass(frozen=True)
class Spread:
    """Median, minimum and maximum of repeated measurements."""

    median: float
    least: float
    most: float

    @staticmethod
    def of(values: Sequence[float]) -> Spread:
        """Return the spread of `values`. Raises ValueError without values."""
        return Spread(statistics.median(values), min(values), max(values))

    def text(self, format_spec: str = ",.0f") -> str:
        """Return `median (least to most)`."""
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
    """Return the spread of `over / under`, turn by turn. Raises ValueError if the numbers of turns differ."""
    return Spread.of([a / b for a, b in zip(over, under, strict=True)])
