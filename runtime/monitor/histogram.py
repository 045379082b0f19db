"""Counts of values by range: Prometheus's histogram. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
"""Upper bounds for durations."""
ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
"""Upper bounds for sizes of batches."""


class Histogram:
    """Counts of observations by upper bound; each bound belongs to its range."""

    def __init__(self, bounds: Sequence[float] = SECONDS) -> None:
        """`bounds`: ascending."""
        self.sum = 0.0
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)

    def observe(self, value: float) -> None:
        self.sum += value
        self._counts[bisect_left(self._bounds, value)] += 1

    def buckets(self) -> list[tuple[str, float]]:
        """Return (bound, count) for each bound: how many observations were at most that large; the last is
        all."""
        names = [*(f"{float(bound):g}" for bound in self._bounds), "+Inf"]
        totals, total = [], 0
        for count in self._counts:
            total += count
            totals.append(float(total))
        return list(zip(names, totals, strict=True))
