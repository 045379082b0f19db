"""Charts of a run's games: results, lengths, openings, searches, values, speed. Charts without data are left
out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from diagnostics.roots import RootSums
from evaluation.plots import SHORT_RUN
from report.bins import Bin, Binned
from report.drawing import Chart, areas, chart, curves, lines, over_bins
from report.sampling import VALUE_BINS, Sample, Sampled

if TYPE_CHECKING:
    from matplotlib.axes import Axes

VERSIONS = "weights version"
OUTCOME_COLOURS = ("#1f6fb2", "#b9b9b9", "#d9822b")
SPANS = 30
"""Time spans in which games are counted."""
COMMON = 6
"""End reasons with a colour of their own."""
FEWEST = 20
"""Least number of plies for a point of the calibration."""
SEARCH_CHARTS = (
    (
        "What the search adds",
        "KL of the visits and the network's priors, mean over policy targets. Below 0.05 it adds nothing: "
        "the network knows the game (in a small one), or has too few simulations to learn from.",
        {"kl": "KL of visits and priors"},
        "KL divergence, nats",
    ),
    (
        "Sure of a move",
        "Share of the visits that the most visited move has; and how often that is not the network's first "
        "choice.",
        {"top_share": "share of the most visited move", "differs": "not the network's choice"},
        "share of visits, of searches",
    ),
    (
        "Values before and after the search",
        "Mean distance of the network's own value of the root and that of the search.",
        {"value_shift": "|after - before|"},
        "mean difference in value",
    ),
    (
        "Depth of the search",
        "Plies that simulations went down, in the mean, and the deepest of all.",
        {"mean_depth": "mean", "max_depth": "deepest"},
        "depth, plies",
    ),
)
"""(title, how to read it, label of each of RootSums.means, unit)."""


def result_charts(bins: Sequence[Bin]) -> list[Chart]:
    """Results, ends and lengths of all games."""
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
        percents = {"90th percentile": 90, "median": 50, "10th percentile": 10}
        found = {name: [one.percentile(percent) for one in bins] for name, percent in percents.items()}
        over_bins(axis, labels, found, VERSIONS, "plies per game")

    return [
        chart("Results", "Shares of games. Ever more draws may mean that learning stops.", outcomes),
        chart("Ends", "How games end.", ends),
        chart("Length", "Plies of a game.", lengths),
    ]  # fmt: skip


def sample_charts(binned: Binned, sample: Sample) -> list[Chart]:
    """Charts of figures that need whole records."""
    kept = [(one, sums) for one, sums in zip(binned.bins, sample.bins, strict=True) if sums.games]
    labels = [one.label for one, _ in kept]
    found = [sums for _, sums in kept]

    def by_bin(y: str, named: dict[str, list[float]]) -> Callable[[Axes], None]:
        return lambda axis: over_bins(axis, labels, named, VERSIONS, y)

    plies, means = sample.opening_plies, [sums.roots.means() for sums in found]
    return [
        chart(
            "Unique openings",
            f"Different first {plies} (and 20) plies, as a share of the sampled games. Bins with few games "
            "look more varied.",
            by_bin(
                "different openings, share of games",
                {f"first {n} plies": [one.stretch.variety.unique(n) for one in found] for n in (plies, 20)},
            ),
        ),
        chart(
            "Policy targets",
            "Mean entropy of the visits (left to learn from: much if it is high; nothing new if near 0).",
            by_bin("entropy, nats", {"entropy of visits": [mean["entropy"] or 0.0 for mean in means]}),
        ),
        chart(
            "Moves with visits",
            "Root moves that the search tried, in the mean. Very few: it only follows the network.",
            by_bin("moves per search", {"moves with visits": [mean["moves"] or 0.0 for mean in means]}),
        ),
        *search_charts(labels, [sums.roots for sums in found]),
        chart(
            "Values that are sure",
            "Root values beyond 0.99 either way, without the last 4 plies of each game; and how many of "
            "these named the wrong result.",
            by_bin(
                "share of root values",
                {
                    "sure": [one.stretch.saturated_share for one in found],
                    "of these wrong": [one.stretch.wrong_share for one in found],
                },
            ),
        ),
        chart(
            "Age of weights in games",
            "In games, where the alert counts versions: finished between the first game of the weights and "
            "the one they play in, mean over plies.",
            by_bin("age, games", {"age in games": [one.mean_age for one in found]}),
        ),
        chart(
            "Are root values right?",
            "Games in which the root said v should end with v in the mean: the dashed line. Flatter: the "
            "values are too sure; steeper: too timid.",
            lambda axis: _calibration(axis, found),
        ),
    ]  # fmt: skip


def search_charts(labels: Sequence[str], found: Sequence[RootSums]) -> list[Chart]:
    """Charts of how far searches differ from the raw network, from a label and sums for each bin."""
    means = [sums.means() for sums in found]
    charts = []
    for title, caption, names, unit in SEARCH_CHARTS:
        lines = {label: known([mean[name] for mean in means]) for name, label in names.items()}
        if any(places for places, _ in lines.values()):
            charts.append(chart(title, caption, curves(lines, VERSIONS, unit, labels)))
    return charts


def known(values: Sequence[float | None]) -> tuple[list[float], list[float]]:
    """(places, values) of the values that are known."""
    pairs = [(float(place), value) for place, value in enumerate(values) if value is not None]
    return [place for place, _ in pairs], [value for _, value in pairs]


def _calibration(axis: Axes, found: Sequence[Sampled]) -> None:
    axis.plot([-1, 1], [-1, 1], color="#888888", linestyle="--", linewidth=1)
    quarter = max(1, len(found) // 4)
    parts = {"newest weights": found[-quarter:], "first weights": found[:quarter]}
    by_name = {name: calibration(part) for name, part in parts.items()}
    if len(found) == 1:
        del by_name["first weights"]
    lines(axis, by_name, "root value, for the side to move", "mean outcome")


def calibration(found: Sequence[Sampled]) -> tuple[list[float], list[float]]:
    """(mean root value, mean outcome) of each bin of values with at least FEWEST plies."""
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

    name = "games an hour"
    scale, unit = (60, "minutes") if hours[-1] < SHORT_RUN else (1, "hours")
    places = [scale * hour for hour in hours]
    draw = curves({name: (places, rates)}, f"{unit} since the first game", name, zero=True)
    return [chart("Games an hour", "As they reached the trainer; long breaks count as well.", draw)]


def speeds(times: Sequence[tuple[int, float]]) -> tuple[list[float], list[float]]:
    """(middle in hours since the first moment, games per hour) of equal time spans.

    The spans are equal in time, not in games, because games of the same length end together.
    """
    if len(times) < 2 or times[-1][1] <= times[0][1]:
        return [], []
    games, when = (np.array(column, float) for column in zip(*times, strict=True))
    edges = np.linspace(when[0], when[-1], min(SPANS, len(times)) + 1)
    played = np.diff(np.interp(edges, np.maximum.accumulate(when), games))
    hours = (edges - when[0]) / 3600
    return ((hours[1:] + hours[:-1]) / 2).tolist(), (played / np.diff(hours)).tolist()
