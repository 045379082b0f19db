"""What a metric is, and where its value is among a process's figures. Imports nothing heavy.

Names: prefix `az_`, base units (seconds, bytes), suffix `_total` for what only grows
(https://prometheus.io/docs/practices/naming/). No label has a value that a peer chose.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

TOTAL = "_total"


@dataclass(frozen=True)
class Metric:
    """One metric."""

    name: str
    """A name that ends in `_total` is a counter, any other a gauge (or `is_histogram`)."""
    figure: str
    """Path of the figure, such as `sessions.trainer`. The metric has no sample while the figure is missing or
    None."""
    help: str
    label: str = ""
    """If set, the figure is a mapping: one sample for each key, with the key under this label."""
    scale: float = 1.0
    """Factor from the figure to the value, in the unit of the name."""
    is_histogram: bool = False
    """The figure is a `Histogram`, or a mapping to histograms."""


EVERYWHERE = (
    Metric("az_build_info", "build", "1, with the version of azselfplay.", label="version"),
    Metric("az_ready", "ready", "1 while this process can do its work (/readyz), else 0."),
    Metric("az_loop_lag_seconds", "lag", "Longest delay of the event loop within the last minute."),
    Metric("az_disk_free_bytes", "free", "Free bytes on the disk with this process's files."),
)
"""The metrics of every process."""


def figure(figures: Mapping[str, Any], path: str) -> Any:
    """Return the figure at a path such as `sessions.trainer`; None if there is none."""
    at: Any = figures
    for name in path.split("."):
        at = at.get(name) if isinstance(at, Mapping) else None
    return at
