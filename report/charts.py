"""Which charts a report has, and what they are drawn from. A chart without data is left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from report.bins import Bin, Binned
from report.drawing import Chart, areas, chart, lines, over_bins
from report.history import History
from report.network import network_curves
from report.roots import search_charts
from report.sampling import VALUE_BINS, Sample, Sampled

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Curves = dict[str, tuple[list[float], list[float]]]
"""Places and values by label."""
VERSIONS = "weights version"
STEPS = "training step"
OUTCOME_COLOURS = ("#1f6fb2", "#b9b9b9", "#d9822b")
SPANS = 30
"""Spans of time whose games are counted."""
COMMON = 6
"""End reasons with a colour of their own."""
FEWEST = 20
"""Plies behind a point of the calibration."""


def training_charts(history: History) -> list[Chart]:
    """Curves of the trainer."""
    if len(history.rows) < 2:
        return []
    curve = history.curve
    found = [
        (
            "Policy loss",
            "Cross-entropy to the visits. It cannot go below the entropy of its targets; what is between "
            "them is left to learn. Both rise when searches become less sure, which is no fault.",
            {
                "policy loss": curve("trainer/policy_loss"),
                "entropy of targets": curve("trainer/policy_entropy"),
                "on games held out": curve("trainer/held_out_policy_loss"),
            },
            "nats",
        ),
        (
            "Value loss",
            "Of a win-draw-loss head: 1.10 is a guess, 0.4 to 0.9 healthy while games are decisive. Low with "
            "many draws: it only says draw. If it rises on games never trained on while it falls: learnt by "
            "heart.",
            {
                "value loss": curve("trainer/value_loss"),
                "on games held out": curve("trainer/held_out_value_loss"),
            },
            "loss",
        ),
        ("Gradient norm", "Before clipping.", {"gradient norm": curve("trainer/gradient_norm")}, "norm"),
        (
            "Samples per position",
            "How often a position has been trained on, in the mean over all searched positions.",
            {"samples per position": curve("trainer/samples_per_position")},
            "samples",
        ),
        (
            "Replay window",
            "Positions it holds, and positions that ever came.",
            {"window": curve("trainer/window_positions"), "all": curve("trainer/positions")},
            "positions",
        ),
        *network_curves(history),
    ]  # fmt: skip
    return [chart(title, caption, _drawer(curves, y)) for title, caption, curves, y in found if _any(curves)]


def _any(curves: Curves) -> bool:
    return any(len(places) > 1 for places, _ in curves.values())


def _drawer(curves: Curves, y: str) -> Callable[[Axes], None]:
    there = {label: curve for label, curve in curves.items() if curve[0]}
    return lambda axis: lines(axis, there, STEPS, y)


def result_charts(bins: Sequence[Bin]) -> list[Chart]:
    """Results, ends and lengths, of all games."""
    labels = [one.label for one in bins]

    def outcomes(axis: Axes) -> None:
        names = {1: "first player wins", 0: "draw", -1: "second player wins"}
        shares = {name: [one.outcomes[key] / one.games for one in bins] for key, name in names.items()}
        areas(axis, labels, shares, VERSIONS, OUTCOME_COLOURS)

    def ends(axis: Axes) -> None:
        together: Counter[str] = sum((one.reasons for one in bins), Counter())
        common = [reason for reason, _ in together.most_common(COMMON)]
        shares = {
            reason.replace("_", " "): [one.reasons[reason] / one.games for one in bins] for reason in common
        }
        if len(together) > COMMON:
            rest = [1 - sum(one.reasons[reason] for reason in common) / one.games for one in bins]
            shares["others"] = rest
        areas(axis, labels, shares, VERSIONS)

    def lengths(axis: Axes) -> None:
        shares = {"longest tenth begins": 0.9, "half": 0.5, "shortest tenth ends": 0.1}
        curves = {name: [one.percentile(share) for one in bins] for name, share in shares.items()}
        over_bins(axis, labels, curves, VERSIONS, "plies")

    return [
        chart("Results", "In chess, draws that become ever more are the usual way to fail.", outcomes),
        chart("Ends", "How games end.", ends),
        chart("Length", "10th, 50th and 90th percentile of the plies of a game.", lengths),
    ]  # fmt: skip


def sample_charts(binned: Binned, sample: Sample) -> list[Chart]:
    """What was found in the records."""
    kept = [(one, sums) for one, sums in zip(binned.bins, sample.bins, strict=True) if sums.games]
    labels = [one.label for one, _ in kept]
    found = [sums for _, sums in kept]

    def curves(y: str, **named: list[float]) -> Callable[[Axes], None]:
        by_name = {name.replace("_", " "): values for name, values in named.items()}
        return lambda axis: over_bins(axis, labels, by_name, VERSIONS, y)

    plies = sample.opening_plies
    return [
        chart(
            "Unique openings",
            f"Different first {plies} (and 20) plies, as a share of the sampled games. Bins with few games "
            "look more varied.",
            curves(
                "share",
                **{f"first_{plies}_plies": [one.unique_openings for one in found]},
                first_20_plies=[one.stretch.variety.unique(20) for one in found],
            ),
        ),
        chart(
            "Policy targets",
            "Mean entropy of the visits (left to learn from: much if it is high; nothing new if near 0).",
            curves("nats", entropy_of_visits=[one.mean_entropy for one in found]),
        ),
        chart(
            "Moves with visits",
            "Root moves that the search tried, in the mean. Very few: it only follows the network.",
            curves("moves", moves_with_visits=[one.mean_visited for one in found]),
        ),
        *search_charts(labels, [sums.roots for sums in found]),
        chart(
            "Values that are sure",
            "Root values beyond 0.99 either way, without the last 4 plies of each game; and how many of "
            "these named the wrong result.",
            curves(
                "share",
                sure=[one.stretch.saturated_share for one in found],
                of_these_wrong=[one.stretch.wrong_share for one in found],
            ),
        ),
        chart(
            "Age of weights",
            "Games finished between the first game of the weights and the one they play in, mean over plies.",
            curves("games", age_in_games=[one.mean_age for one in found]),
        ),
        chart(
            "Are root values right?",
            "Games in which the root said v should end with v in the mean: the dashed line. Flatter: the "
            "values are too sure; steeper: too timid.",
            lambda axis: _calibration(axis, found),
        ),
    ]  # fmt: skip


def _calibration(axis: Axes, found: Sequence[Sampled]) -> None:
    axis.plot([-1, 1], [-1, 1], color="#888888", linestyle="--", linewidth=1)
    quarter = max(1, len(found) // 4)
    parts = {"newest weights": found[-quarter:], "first weights": found[:quarter]}
    curves = {name: calibration(part) for name, part in parts.items()}
    if len(found) == 1:
        del curves["first weights"]
    lines(axis, curves, "root value, for the side to move", "mean outcome")


def calibration(found: Sequence[Sampled]) -> tuple[list[float], list[float]]:
    """(mean root value, mean outcome) of each bin of values that has plies enough."""
    plies, values, outcomes = np.zeros(VALUE_BINS), np.zeros(VALUE_BINS), np.zeros(VALUE_BINS)
    for one in found:
        plies += one.values
        values += one.value_sums
        outcomes += one.outcome_sums
    enough = plies >= FEWEST
    return (values[enough] / plies[enough]).tolist(), (outcomes[enough] / plies[enough]).tolist()


def speed_chart(times: Sequence[tuple[int, float]]) -> list[Chart]:
    """Games an hour between moments `(game, seconds since 1970)`."""
    hours, rates = speeds(times)
    if not hours:
        return []

    def draw(axis: Axes) -> None:
        lines(
            axis, {"games an hour": (hours, rates)}, "hours since the first game", "games an hour", zero=True
        )

    return [chart("Games an hour", "As they reached the trainer; long breaks count as well.", draw)]


def speeds(times: Sequence[tuple[int, float]]) -> tuple[list[float], list[float]]:
    """(middle in hours since the first moment, games an hour) of spans of equal time.

    Equal time and not equal games, because games of the same length end together.
    """
    if len(times) < 2 or times[-1][1] <= times[0][1]:
        return [], []
    games, when = (np.array(column, float) for column in zip(*times, strict=True))
    edges = np.linspace(when[0], when[-1], min(SPANS, len(times)) + 1)
    played = np.diff(np.interp(edges, np.maximum.accumulate(when), games))
    hours = (edges - when[0]) / 3600
    return ((hours[1:] + hours[:-1]) / 2).tolist(), (played / np.diff(hours)).tolist()
