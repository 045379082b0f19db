"""The charts of a report that need the games themselves: results, ends, and whether root values are right.
All others are the curves of the trainer's figures. The scripts of the pages draw both (report.page).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from azselfplay.lab.report.figures import VALUE_BINS, Bin, Sampled

VERSIONS = "weights version"

COMMON = 6
"""End reasons with a curve of their own."""

FEWEST = 20
"""Least number of plies for a point of the calibration."""

OUTCOMES = {1: "first player wins", 0: "draw", -1: "second player wins"}


def game_charts(bins: Sequence[Bin], sampled: Sequence[Sampled]) -> list[dict[str, Any]]:
    """The charts, each with its `series` as `assets/chart.js` takes them. `sampled`: of each bin."""
    versions = [one.last for one in bins]
    together: Counter[str] = sum((one.reasons for one in bins), Counter())
    common = [reason for reason, _ in together.most_common(COMMON)]
    outcomes = {name: [one.outcomes[key] / one.games for one in bins] for key, name in OUTCOMES.items()}
    ends = {reason.replace("_", " "): [one.reasons[reason] / one.games for one in bins] for reason in common}
    if len(together) > COMMON:
        ends["others"] = [1 - sum(one.reasons[reason] for reason in common) / one.games for one in bins]
    share = {"unit": "share of games", "percent": True, "x": VERSIONS}
    return [
        {
            **share,
            "title": "Results",
            "caption": "Of all games. Ever more draws may mean that learning stops.",
            "series": series({name: (versions, values) for name, values in outcomes.items()}),
        },
        {
            **share,
            "title": "Ends",
            "caption": "How all games end.",
            "series": series({name: (versions, values) for name, values in ends.items()}),
        },
        {
            "title": "Are root values right?",
            "caption": "Mean result of the games in which the root had this value. On the diagonal, values "
            "are honest. Flatter: they are too sure; steeper: too timid.",
            "unit": "mean outcome",
            "range": [-1, 1],
            "x": "root value, for the side to move",
            "series": series(calibrations(sampled)),
        },
    ]


def calibrations(sampled: Sequence[Sampled]) -> dict[str, tuple[Sequence[float], Sequence[float]]]:
    """(root values, mean outcomes) of the oldest and the newest quarter of the bins, and of honest values."""
    found = [one for one in sampled if one.games]
    quarter = max(1, len(found) // 4)
    curves = {"newest weights": calibration(found[-quarter:])}
    if len(found) > 1:
        curves["first weights"] = calibration(found[:quarter])
    return {**curves, "honest values": ([-1.0, 1.0], [-1.0, 1.0])}


def calibration(found: Sequence[Sampled]) -> tuple[list[float], list[float]]:
    """(mean root value, mean outcome) of each bin of values with at least FEWEST plies."""
    plies, values, outcomes = np.zeros(VALUE_BINS), np.zeros(VALUE_BINS), np.zeros(VALUE_BINS)
    for one in found:
        plies += one.values
        values += one.value_sums
        outcomes += one.outcome_sums
    enough = plies >= FEWEST
    return (values[enough] / plies[enough]).tolist(), (outcomes[enough] / plies[enough]).tolist()


def series(curves: Mapping[str, tuple[Sequence[float], Sequence[float]]]) -> list[dict[str, Any]]:
    """(places, values) by label, with a colour and a dash for each."""
    return [
        {"label": label, "xs": list(xs), "ys": list(ys), "colour": at, "dash": at}
        for at, (label, (xs, ys)) in enumerate(curves.items())
    ]
