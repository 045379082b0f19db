"""The charts of a report, as images inside the page: of training, of the games, and of ratings. Charts
without data are left out.
"""

from __future__ import annotations

import base64
import io
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct

from azselfplay.diagnostics.stretches import RootSums
from azselfplay.host.reading import read_struct
from azselfplay.lab.report.curves import IN_REPORTS, History, with_curves
from azselfplay.lab.report.figures import VALUE_BINS, Bin, Binned, Sample, Sampled
from azselfplay.play.book import Entrant
from azselfplay.play.plots import ELO, SHORT_RUN, close, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SIZE = (4.9, 3.0)
"""Inches."""

COLOURS = ("#1f6fb2", "#d9822b", "#3a9d5d", "#b2452f", "#7d5ba6", "#8c8c8c", "#c9a227", "#4aa3a2")

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


# ---- Strength, if `azplay ladder` has rated networks of the run ---------------------------------


class Rating(Struct, frozen=True):
    elo: float
    margin95: float


class Rated(Struct, frozen=True):
    """The parts of ratings.json that a report needs."""

    players: list[Entrant] = []
    ratings: dict[str, Rating] = {}

    def rated(self) -> list[tuple[Entrant, Rating]]:
        """The players that have a rating, with it."""
        return [(one, self.ratings[one.name]) for one in self.players if one.name in self.ratings]


def read_ratings(path: Path) -> Rated:
    """The ratings in a file; none if there is no such file or it cannot be read."""
    try:
        return read_struct(path, Rated)
    except (OSError, ValueError):
        return Rated()


def curves_of(rated: Rated) -> dict[tuple[int, str], list[tuple[int, Rating]]]:
    """`(step, rating)` of the networks by (simulations, search)."""
    curves: dict[tuple[int, str], list[tuple[int, Rating]]] = {}
    for player, rating in rated.rated():
        if player.version is not None:
            curves.setdefault((player.simulations, player.search), []).append((player.step or 0, rating))
    return curves


def rating_charts(rated: Rated) -> list[Chart]:
    """A chart with a curve for each search."""
    by_search = curves_of(rated)
    if not by_search:
        return []

    def draw(axis: Axes) -> None:
        found = sorted(by_search.items())
        for ((simulations, search), points), colour in zip(found, COLOURS * 4, strict=False):
            points.sort(key=lambda point: point[0])
            steps, marks = [step for step, _ in points], [rating for _, rating in points]
            axis.errorbar(
                steps, [mark.elo for mark in marks], yerr=[mark.margin95 for mark in marks],
                color=colour, marker="o", markersize=3, capsize=2,
                label=f"{simulations} simulations a move, {search}",
            )  # fmt: skip
        axis.set_xlabel("training step")
        axis.set_ylabel(ELO)

    caption = (
        "From RUN/ratings.json (azplay ladder), with 95 % intervals. The one curve that says how it plays."
    )
    return [chart("Strength", caption, draw)]


# ---- Training -----------------------------------------------------------------------------------


def training_charts(history: History) -> list[Chart]:
    """Charts of the trainer's figures; those without data are left out."""
    names = list({name: None for row in history.rows for name in row})
    found = []
    for described, caption, labelled in with_curves(IN_REPORTS, names):
        by_label = {label: history.curve(name) for label, name in labelled}
        if any(len(steps) > 1 for steps, _ in by_label.values()):
            found.append(chart(described.title, caption, curves(by_label, "training step", described.unit)))
    return found


# ---- Games --------------------------------------------------------------------------------------


def result_charts(bins: Sequence[Bin]) -> list[Chart]:
    """Results, ends and lengths of all games."""
    labels = [one.label for one in bins]

    def outcomes(axis: Axes) -> None:
        names = {1: "first player wins", 0: "draw", -1: "second player wins"}
        shares = {name: [one.outcomes[key] / one.games for one in bins] for key, name in names.items()}
        areas(axis, labels, shares, OUTCOME_COLOURS)

    def ends(axis: Axes) -> None:
        together: Counter[str] = sum((one.reasons for one in bins), Counter())
        common = [reason for reason, _ in together.most_common(COMMON)]
        shares = {
            reason.replace("_", " "): [one.reasons[reason] / one.games for one in bins] for reason in common
        }
        if len(together) > COMMON:
            rest = [1 - sum(one.reasons[reason] for reason in common) / one.games for one in bins]
            shares["others"] = rest
        areas(axis, labels, shares)

    percents = {"90th percentile": 90, "median": 50, "10th percentile": 10}
    lengths = {name: [one.percentile(percent) for one in bins] for name, percent in percents.items()}
    return [
        chart("Results", "Shares of games. Ever more draws may mean that learning stops.", outcomes),
        chart("Ends", "How games end.", ends),
        chart("Length", "Plies of a game.", over_bins(labels, lengths, "plies per game")),
    ]


def sample_charts(binned: Binned, sample: Sample) -> list[Chart]:
    """Charts of figures that need whole records."""
    kept = [(one, sums) for one, sums in zip(binned.bins, sample.bins, strict=True) if sums.games]
    labels = [one.label for one, _ in kept]
    found = [sums for _, sums in kept]

    by_bin = partial(over_bins, labels)

    def draw_calibration(axis: Axes) -> None:
        axis.plot([-1, 1], [-1, 1], color="#888888", linestyle="--", linewidth=1)
        quarter = max(1, len(found) // 4)
        by_name = {"newest weights": calibration(found[-quarter:])}
        if len(found) != 1:
            by_name["first weights"] = calibration(found[:quarter])
        lines(axis, by_name, "root value, for the side to move", "mean outcome")

    plies, means = sample.opening_plies, [sums.roots.means() for sums in found]
    return [
        chart(
            "Unique openings",
            f"Different first {plies} (and 20) plies, as a share of the sampled games. Bins with few games "
            "look more varied.",
            by_bin(
                {f"first {n} plies": [one.stretch.variety.unique(n) for one in found] for n in (plies, 20)},
                "different openings, share of games",
            ),
        ),
        chart(
            "Policy targets",
            "Mean entropy of the visits (left to learn from: much if it is high; nothing new if near 0).",
            by_bin({"entropy of visits": [mean["entropy"] or 0.0 for mean in means]}, "entropy, nats"),
        ),
        chart(
            "Moves with visits",
            "Root moves that the search tried, in the mean. Very few: it only follows the network.",
            by_bin({"moves with visits": [mean["moves"] or 0.0 for mean in means]}, "moves per search"),
        ),
        *search_charts(labels, [sums.roots for sums in found]),
        chart(
            "Values that are sure",
            "Root values beyond 0.99 either way, without the last 4 plies of each game; and how many of "
            "these named the wrong result.",
            by_bin(
                {
                    "sure": [one.stretch.saturated_share for one in found],
                    "of these wrong": [one.stretch.wrong_share for one in found],
                },
                "share of root values",
            ),
        ),
        chart(
            "Age of weights in games",
            "In games, where the alert counts versions: finished between the first game of the weights and "
            "the one they play in, mean over plies.",
            by_bin({"age in games": [one.mean_age for one in found]}, "age, games"),
        ),
        chart(
            "Are root values right?",
            "Games in which the root said v should end with v in the mean: the dashed line. Flatter: the "
            "values are too sure; steeper: too timid.",
            draw_calibration,
        ),
    ]  # fmt: skip


def search_charts(labels: Sequence[str], found: Sequence[RootSums]) -> list[Chart]:
    """Charts of how far searches differ from the raw network, from a label and sums for each bin."""
    means = [sums.means() for sums in found]
    charts = []
    for title, caption, names, unit in SEARCH_CHARTS:
        by_label = {label: known([mean[name] for mean in means]) for name, label in names.items()}
        if any(places for places, _ in by_label.values()):
            charts.append(chart(title, caption, curves(by_label, VERSIONS, unit, labels)))
    return charts


def known(values: Sequence[float | None]) -> tuple[list[float], list[float]]:
    """(places, values) of the values that are known."""
    pairs = [(float(place), value) for place, value in enumerate(values) if value is not None]
    return [place for place, _ in pairs], [value for _, value in pairs]


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
    # A clock that was set back must not make time run backwards: `interp` needs it sorted.
    played = np.diff(np.interp(edges, np.maximum.accumulate(when), games))
    hours = (edges - when[0]) / 3600
    return ((hours[1:] + hours[:-1]) / 2).tolist(), (played / np.diff(hours)).tolist()


# ---- Drawing ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Chart:
    """An image with title and caption."""

    title: str
    caption: str
    """How to read it."""
    source: str
    """`data:` URI."""


def svg_uri(svg: bytes) -> str:
    return "data:image/svg+xml;base64," + base64.b64encode(svg).decode()


def chart(title: str, caption: str, draw: Callable[[Axes], None]) -> Chart:
    """A chart with one panel, which `draw` fills."""
    import matplotlib as mpl

    figure, panels = new_figure(1, 1, SIZE)
    axis = panels[0][0]
    draw(axis)
    axis.set_axisbelow(True)
    axis.grid(visible=True, color="#e4e4e4", linewidth=0.6)
    handles, _ = axis.get_legend_handles_labels()
    if len(handles) > 1:
        axis.legend(loc="best", fontsize=8, framealpha=0.85)
    stream = io.BytesIO()
    # Text stays text, which is a tenth of the size and can be searched.
    with mpl.rc_context({"svg.fonttype": "none"}):
        figure.savefig(stream, format="svg", metadata={"Date": None})
    close(figure)
    return Chart(title, caption, svg_uri(stream.getvalue()))


def lines(
    axis: Axes,
    curves: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    x: str,
    y: str,
    *,
    zero: bool = False,
) -> None:
    """Draw (places, values) by label; `zero`: the y axis begins at 0."""
    for (label, (places, values)), colour in zip(curves.items(), COLOURS, strict=False):
        marker = "o" if len(places) <= 40 else None  # more of them would hide the curve
        axis.plot(places, values, color=colour, marker=marker, markersize=3, linewidth=1.3, label=label)
    axis.set_xlabel(x)
    axis.set_ylabel(y)
    if zero:
        highest = max((max(values, default=0.0) for _, values in curves.values()), default=0.0)
        axis.set_ylim(0, 1.08 * highest or 1.0)


def areas(
    axis: Axes, labels: Sequence[str], shares: Mapping[str, Sequence[float]], colours: Sequence[str] = COLOURS
) -> None:
    """Draw shares that sum to 1, stacked; `labels` are the bins of versions on the x axis."""
    places: list[float] = list(range(len(labels)))
    wide = {name: list(values) for name, values in shares.items()}
    if len(labels) == 1:
        # An area needs two places.
        places, wide = [-0.5, 0.5], {name: values * 2 for name, values in wide.items()}
    axis.stackplot(places, *wide.values(), labels=list(wide), colors=list(colours), alpha=0.85)
    axis.set_ylim(0, 1)
    axis.set_xlim(places[0], places[-1])
    axis.set_ylabel("share of games")
    name_places(axis, labels, VERSIONS)


def over_bins(labels: Sequence[str], named: Mapping[str, Sequence[float]], y: str) -> Callable[[Axes], None]:
    """A function for `chart` that draws curves with a point for each bin of versions."""
    places = list(range(len(labels)))
    return curves({name: (places, values) for name, values in named.items()}, VERSIONS, y, labels)


def curves(
    found: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    x: str,
    y: str,
    labels: Sequence[str] = (),
    *,
    zero: bool = False,
) -> Callable[[Axes], None]:
    """A function for `chart` that draws curves; `labels` name the places 0, 1, ... on the x axis."""
    there = {label: curve for label, curve in found.items() if curve[0]}

    def draw(axis: Axes) -> None:
        lines(axis, there, x, y, zero=zero or bool(labels))
        if labels:
            name_places(axis, labels, x)

    return draw


def name_places(axis: Any, labels: Sequence[str], x: str) -> None:
    """Write labels below the axis, as many as there is room for."""
    every = max(1, -(-len(labels) // 12))  # SIZE has room for about 12
    places = list(range(0, len(labels), every))
    axis.set_xticks(places)
    axis.set_xticklabels([labels[place] for place in places], fontsize=8, rotation=30 if every > 1 else 0)
    axis.set_xlabel(x)
