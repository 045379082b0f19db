"""Turns a process's figures into the metric families that prometheus_client writes out. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.core import Metric as Family

from runtime.monitor.histogram import Histogram
from runtime.monitor.metric import TOTAL, Metric, figure


def families(metrics: Sequence[Metric], figures: Mapping[str, Any]) -> Iterator[Family]:
    """Yield the metrics of a table with the values in `figures`."""
    for metric in metrics:
        found = figure(figures, metric.figure)
        samples = found.items() if metric.label and isinstance(found, Mapping) else [("", found)]
        if metric.is_histogram:
            yield _histogram(metric, samples)
        else:
            yield _numbers(metric, samples)


def _numbers(metric: Metric, samples: Iterable[tuple[str, Any]]) -> Family:
    kind = CounterMetricFamily if metric.name.endswith(TOTAL) else GaugeMetricFamily
    family = kind(metric.name, metric.help, labels=_labels(metric))
    for key, value in samples:
        if isinstance(value, bool | int | float):
            family.add_metric([str(key)] if metric.label else [], metric.scale * value)
    return family


def _histogram(metric: Metric, samples: Iterable[tuple[str, Any]]) -> Family:
    family = HistogramMetricFamily(metric.name, metric.help, labels=_labels(metric))
    for key, value in samples:
        if isinstance(value, Histogram):
            family.add_metric([str(key)] if metric.label else [], value.buckets(), value.sum)
    return family


def _labels(metric: Metric) -> list[str] | None:
    return [metric.label] if metric.label else None
