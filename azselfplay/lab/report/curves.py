"""The trainer's figures over time, from figures.jsonl, and their charts. The pages of a run follow the file;
the report reads it once.

Each look continues where the last one stopped and reads only new lines. However long the run, at most twice
MOST moments are kept, evenly spread, and the newest one: whenever there are too many, the distance between
kept moments is doubled.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from azselfplay.host.reading import json_in, open_regular

STEP = "trainer/step"
MOST = 1000
"""Number of moments that a curve should have; a page is rarely wider in pixels."""
CHUNK = 1 << 20
"""Bytes read at once."""


@dataclass(frozen=True)
class Chart:
    """Curves in one chart, by the names that TensorBoard also shows."""

    title: str
    caption: str
    """How to read it."""
    curves: tuple[tuple[str, str], ...]
    """(label, name of the figure)"""
    unit: str
    """What the y axis shows, with its unit."""
    percent: bool = False
    least_span: float | None = None
    """The y axis follows the curves and shows at least this span. None: values are never negative, and the
    axis begins at 0."""
    explained: Mapping[str, str] = field(default_factory=dict)
    """Sentences for the caption by the curve's label: only charts with that curve have them."""
    prefix: str = ""
    """The chart also has a curve for each figure whose name begins with this, if no other chart names it."""


PROBES, KNOWN_ERRORS = "probe_values/", "known_errors/"

# The strength of the networks comes first, because it is the purpose of a run. The other chart of strength,
# Elo, comes from other files (report.strength).
STRENGTH = (
    Chart(
        "Errors in known positions",
        "Share in which the network's likeliest move, without a search, throws the result away. Only "
        "positions in which some move does. Each line is a group of positions, of which a fixed sample is "
        "asked about (100); azplay truth asks about all.",
        (),
        "share of positions",
        explained={
            "tree": "tree: positions of the whole game.",
            "mate in one": "mate in one: every move that does not mate counts.",
        },
        percent=True,
        prefix=KNOWN_ERRORS,
    ),
    Chart(
        "Values of known positions",
        "What the network says of the start, and of positions whose value is known, for the side to move, "
        "-1 to 1.",
        (),
        "value",
        least_span=0.5,
        explained={
            "start": "start: the usual start, for the first player.",
            "KQK": "KQK is won for the side to move (near +1), KKQ is lost (near -1).",
        },
        prefix=PROBES,
    ),
)

VALUE_LOSS = Chart(
    "Value loss",
    "Cross-entropy with the result: 1.10 is a guess, 0.4 to 0.9 healthy while games are decisive. Low "
    "with many draws: it only says draw. Held-out games far above training: the network memorises.",
    (("training", "trainer/value_loss"), ("held-out games", "trainer/held_out_value_loss")),
    "cross-entropy, nats",
    least_span=0.3,
)
TANH_LOSS = replace(
    VALUE_LOSS,
    title="Value loss, mean square",
    caption="Mean square of the value's error: a value of 0 everywhere has the share of decisive games. "
    "Held-out games far above training: the network memorises.",
    unit="mean square",
)
"""Replaces VALUE_LOSS for a tanh head, under a title of its own: runs of both kinds share no axis."""

LEARNING = (
    Chart(
        "Policy loss",
        "Cross-entropy with the search's policy. No network gets below the entropy of its targets; what is "
        "between them is left to learn. Both rise when searches become less sure, which is no fault.",
        (
            ("training", "trainer/policy_loss"),
            ("held-out games", "trainer/held_out_policy_loss"),
            ("entropy of the targets", "trainer/policy_entropy"),
        ),
        "cross-entropy, nats",
        least_span=0.3,
    ),
    VALUE_LOSS,
    Chart(
        "Spread of values",
        "Standard deviation over positions of held-out games: near 0, all values are the same.",
        (("spread", "trainer/value_spread"),),
        "standard deviation",
        least_span=0.3,
    ),
    Chart("Gradient norm", "Before clipping.", (("norm", "trainer/gradient_norm"),), "gradient norm"),
    Chart(
        "Weight norm",
        "Of all weights. If it keeps rising, each step changes less: raise optimizer.weight_decay.",
        (("norm", "trainer/weight_norm"),),
        "weight norm",
    ),
)

GAMES = (
    Chart(
        "Results in the window",
        "Shares of the positions whose game the first player won, nobody won, or the second player won. Few "
        "runs recovered from more than 85 % draws with a value loss below 0.4.",
        (
            ("first", "window_outcomes/first"),
            ("draw", "window_outcomes/draw"),
            ("second", "window_outcomes/second"),
        ),
        "share of positions",
        percent=True,
    ),
    Chart(
        "Length of games",
        "Of the newest games, 10 % have at most p10 plies, half at most p50, and 90 % at most p90.",
        (("p10", "lengths/p10"), ("p50", "lengths/p50"), ("p90", "lengths/p90")),
        "plies per game",
    ),
    Chart(
        "Unique openings",
        "Different first 10 (and 20) plies, as a share of the newest games. Falling: more noise is needed.",
        (("10 plies", "unique_openings/ply_10"), ("20 plies", "unique_openings/ply_20")),
        "share of games",
        percent=True,
    ),
    Chart(
        "Games an hour",
        "Over the last five minutes.",
        (("games an hour", "trainer/games_per_h"),),
        "games per hour",
    ),
    Chart(
        "Replay window",
        "Positions in the window, and all positions so far.",
        (("window", "trainer/window_positions"), ("all", "trainer/positions")),
        "positions",
    ),
    Chart(
        "Samples per position",
        "How often a position has been trained on, mean over all searched positions.",
        (("samples", "trainer/samples_per_position"),),
        "samples per position",
    ),
    Chart(
        "Age of weights",
        "Versions that the newest games are behind, median. The alert begins above 3.",
        (("age", "trainer/weights_age"),),
        "versions",
    ),
)

SEARCH = (
    Chart(
        "What the search adds",
        "KL of the visits and the network's priors. Below 0.05 it teaches nothing new: the network knows the "
        "game, or has too few simulations to learn from.",
        (("KL", "search/kl"),),
        "KL divergence, nats",
    ),
    Chart(
        "Sure of a move",
        "Share of the visits that the most visited move has; and of the searches in which that is not the "
        "network's first choice.",
        (("most visited move", "search/top_share"), ("another than the network's", "search/differs")),
        "share of visits, of searches",
        percent=True,
    ),
    Chart(
        "Values after the search",
        "Mean distance of the root's value from the network's own. Large and not falling: the value lags.",
        (("distance", "search/value_shift"),),
        "difference in value",
    ),
    Chart(
        "Policy targets",
        "Mean entropy of the visits: much is left to learn if it is high, nothing new near 0.",
        (("entropy", "search/entropy"),),
        "entropy, nats",
    ),
    Chart(
        "Moves with visits",
        "Root moves with visits (of Gumbel: a share of its policy, tried or not), in the mean. Very few: "
        "the search only follows the network.",
        (("moves", "search/moves"),),
        "moves per search",
    ),
    Chart(
        "Depth of the search",
        "Plies that simulations went down, in the mean, and the deepest of all.",
        (("mean", "search/mean_depth"), ("deepest", "search/max_depth")),
        "plies",
    ),
    Chart(
        "Values that are sure",
        "Root values beyond 0.99 either way, without the last 4 plies of each game; and how many of these "
        "named the wrong result.",
        (("sure", "root_values/sure"), ("of these wrong", "root_values/sure_wrong")),
        "share of root values",
        percent=True,
    ),
)

GROUPS = {"Strength": STRENGTH, "Learning": LEARNING, "Games": GAMES, "Search": SEARCH}
"""All charts by the heading above them, for the pages and the report."""
CHARTS = tuple(chart for group in GROUPS.values() for chart in group)
X_AXES = (STEP, "trainer/games", "time")
PREFIXES = tuple(chart.prefix for chart in CHARTS if chart.prefix)
NAMES = (*X_AXES, *(name for chart in CHARTS for _, name in chart.curves), "trainer/weights_version")
"""Figures that a page needs, besides those with a prefix."""


def charts(found: Iterable[str], architecture: str) -> list[dict[str, Any]]:
    """Return the charts for a page. `found`: the figures of this run that have a prefix. `architecture`: of
    its network."""
    found = list(found)
    shown = []
    for group, some in GROUPS.items():
        for chart in some:
            if chart is VALUE_LOSS and architecture.endswith("tanh"):
                chart = TANH_LOSS
            more = [name for name in found if chart.prefix and name.startswith(chart.prefix)]
            curves = [*chart.curves, *((name.removeprefix(chart.prefix), name) for name in more)]
            explained = [chart.explained[label] for label, _ in curves if label in chart.explained]
            caption = " ".join([chart.caption, *explained])
            described = {"title": chart.title, "group": group, "caption": caption, "curves": curves}
            limits = {"percent": chart.percent, "unit": chart.unit, "least_span": chart.least_span}
            if curves:
                shown.append(described | limits)
    return shown


class Curves:
    """The figures of one run over time. Only one thread at a time may use it."""

    def __init__(self, path: Path, most: float = MOST) -> None:
        """`most`: half the moments that are kept."""
        self._path = path
        self._most = most
        self._forget()

    def _forget(self) -> None:
        self._offset = 0
        self._inode = 0
        self._damaged = 0
        self._rest = b""
        # Of the rows read so far, those whose number is divisible by the stride are kept; the stride doubles
        # when there are too many.
        self._read, self._stride = 0, 1
        self._kept: list[dict[str, float]] = []
        self._newest: list[dict[str, float]] = []
        """The newest row, if it is not among those."""
        self.named: dict[str, None] = {}
        """Figures that only some games have: those with a prefix."""

    @property
    def rows(self) -> list[dict[str, float]]:
        """The moments that are kept, and the newest one."""
        return self._kept + self._newest

    def refresh(self) -> None:
        """Read new lines. A file that was replaced or cut is read again from its start."""
        try:
            with open_regular(self._path) as file:
                about = self._path.stat()
                # The file is another one under the old name, for example after a restore.
                if about.st_size < self._offset or about.st_ino != self._inode:
                    self._forget()
                    self._inode = about.st_ino
                file.seek(self._offset)
                while data := file.read(CHUNK):
                    self._offset += len(data)
                    # The trainer may be in the middle of the last line.
                    *lines, self._rest = (self._rest + data).split(b"\n")
                    if len(self._rest) > CHUNK:  # damage: no line of ours is that long
                        self._rest = b""
                    for row in map(row_of, lines):
                        if row is None:
                            self._damaged += 1
                        else:
                            self._add(row)
        except FileNotFoundError:
            self._forget()

    def _add(self, row: dict[str, float]) -> None:
        """Add a row. Rows of steps that the trainer repeated after a checkpoint replace the former ones."""
        while self._kept and self._kept[-1][STEP] >= row[STEP]:
            self._kept.pop()
        # A dict keeps the order of the first appearance.
        self.named.update(dict.fromkeys(name for name in row if name.startswith(PREFIXES)))
        # Keep only the figures that a page needs, because a long run has many rows.
        shown = {name: row[name] for name in (*NAMES, *self.named) if name in row}
        self._newest = [shown] if self._read % self._stride else []
        if not self._newest:
            self._kept.append(shown)
        self._read += 1
        if len(self._kept) > 2 * self._most:
            self._kept, self._stride = self._kept[::2], 2 * self._stride

    def history(self, architecture: str = "") -> dict[str, Any]:
        """Return the charts and their figures, for a page: a list for each figure, with one entry per row.
        `architecture`: of the run's network."""
        columns = {name: [row.get(name) for row in self.rows] for name in (*NAMES, *self.named)}
        return {"charts": charts(self.named, architecture), "columns": columns}

    @property
    def damaged(self) -> int:
        """Lines that could not be read, or are not yet whole."""
        return self._damaged + bool(self._rest)


def row_of(line: bytes) -> dict[str, float] | None:
    """Return the numbers of a line of figures.jsonl; None if it is damaged, or incomplete."""
    try:
        found = json_in(line)
        row = {name: float(n) for name, n in found.items() if isinstance(n, int | float)}
        row[STEP], row["time"]  # KeyError if one is missing: no chart could place the row
    except (ValueError, AttributeError, KeyError, OverflowError):
        return None
    return row
