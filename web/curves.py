"""The curves of a run's page, and one reader of them for all open pages.

The reader continues where it stopped: each look reads only what the trainer has added since. However long the
run, it keeps at most twice MOST moments, evenly spread, and the newest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from report.figures import STEP, row_of
from runtime.reading import open_regular

MOST = 1000
"""Most moments of a curve; a page is rarely wider in pixels."""
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
    percent: bool = False
    unit: str = ""
    """What the y axis shows, with its unit."""
    least_span: float | None = None
    """The y axis follows the curves and shows at least this span. None: values are never negative, and the
    axis begins at 0."""
    explained: Mapping[str, str] = field(default_factory=dict)
    """Sentences for the caption by the curve's label: only charts with that curve have them."""
    prefix: str = ""
    """The chart also has a curve for each figure whose name begins with this and that no chart names."""


PROBES, KNOWN_ERRORS = "probe_values/", "known_errors/"
CHARTS = (
    Chart(
        "Policy loss",
        "Cross-entropy with the search's policy. No network gets below the entropy of its targets.",
        (
            ("training", "trainer/policy_loss"),
            ("held-out games", "trainer/held_out_policy_loss"),
            ("entropy of the targets", "trainer/policy_entropy"),
        ),
        unit="cross-entropy, nats",
        least_span=0.3,
    ),
    Chart(
        "Value loss",
        "Cross-entropy with the result. Held-out games far above training: the network memorises.",
        (("training", "trainer/value_loss"), ("held-out games", "trainer/held_out_value_loss")),
        unit="cross-entropy, nats",
        least_span=0.3,
    ),
    Chart(
        "Results in the replay window",
        "Shares of the positions whose game the first player won, nobody won, or the second player won.",
        (
            ("first", "window_outcomes/first"),
            ("draw", "window_outcomes/draw"),
            ("second", "window_outcomes/second"),
        ),
        percent=True,
        unit="share of positions",
    ),
    Chart(
        "Length of games",
        "Of the newest games, 10 % have at most p10 plies, half at most p50, and 90 % at most p90.",
        (("p10", "lengths/p10"), ("p50", "lengths/p50"), ("p90", "lengths/p90")),
        unit="plies per game",
    ),
    Chart(
        "What the search adds",
        "How much the search's policy differs from the network's. Near 0 it teaches nothing new.",
        (("KL", "search/kl"),),
        unit="KL divergence, nats",
    ),
    Chart(
        "Another move than the network's",
        "Share of the searches whose most visited move is not the network's first choice.",
        (("share", "search/differs"),),
        percent=True,
        unit="share of searches",
    ),
    Chart(
        "Games an hour",
        "Over the last five minutes.",
        (("games an hour", "trainer/games_per_h"),),
        unit="games per hour",
    ),
    Chart(
        "Value of the start position",
        "What the network says of the usual start, for the first player, -1 to 1.",
        (("value", "probe_values/start"),),
        unit="value",
        least_span=0.5,
    ),
    Chart(
        "Values of known positions",
        "What the network says of positions whose value is known, for the side to move, -1 to 1.",
        (),
        unit="value",
        least_span=0.5,
        prefix=PROBES,
    ),
    Chart(
        "Errors in known positions",
        "Share in which the network's likeliest move, without a search, throws the result away. Only "
        "positions in which some move does. Each line is a group of positions, of which a fixed sample is "
        "asked about (100); `azplay truth` asks about all.",
        (),
        explained={
            "tree": "tree: positions of the whole game.",
            "mate in one": "mate in one: every move that does not mate counts.",
        },
        percent=True,
        unit="share of positions",
        prefix=KNOWN_ERRORS,
    ),
)
X_AXES = (STEP, "trainer/games", "time")
PREFIXES = tuple(chart.prefix for chart in CHARTS if chart.prefix)
NAMES = (*X_AXES, *(name for chart in CHARTS for _, name in chart.curves), "trainer/weights_version")


class Curves:
    """The figures of one run over time. Only one thread at a time may use it."""

    def __init__(self, path: Path, most: int = MOST) -> None:
        self._path = path
        self._most = most
        self._forget()

    def _forget(self) -> None:
        self._offset = 0
        self._inode = 0
        self._rest = b""
        self._stride = 1
        self._read = 0
        """Rows read so far."""
        self.rows: list[dict[str, float]] = []
        self._numbers: list[int] = []
        """Number of each row, by which rows are kept evenly spread."""
        self.named: dict[str, None] = {}
        """Figures that only some games have: those with a prefix."""

    def look(self) -> bool:
        """Read what is new. Returns whether there was anything. A file that was replaced or cut is read
        again."""
        try:
            with open_regular(self._path) as file:
                about = self._path.stat()
                if about.st_size < self._offset or about.st_ino != self._inode:
                    self._forget()
                    self._inode = about.st_ino
                file.seek(self._offset)
                before = self._read
                while data := file.read(CHUNK):
                    self._offset += len(data)
                    self._take(data)
                return self._read > before
        except FileNotFoundError:
            self._forget()
            return False

    def _take(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > CHUNK:  # damage: no line of ours is that long
            self._rest = b""
        for line in lines:
            row = row_of(line)
            if row is not None:
                self._add(row)

    def _add(self, row: dict[str, float]) -> None:
        """Add a row. Rows of steps that the trainer repeated after a checkpoint replace the former ones."""
        while self.rows and self.rows[-1][STEP] >= row[STEP]:
            self.rows.pop()
            self._numbers.pop()
        if self._numbers and self._numbers[-1] % self._stride:  # it was kept only as the newest
            self.rows.pop()
            self._numbers.pop()
        self.named.update(dict.fromkeys(name for name in row if name.startswith(PREFIXES)))
        self.rows.append({name: row[name] for name in (*NAMES, *self.named) if name in row})
        self._numbers.append(self._read)
        self._read += 1
        if len(self.rows) > 2 * self._most:
            self._thin()

    def _thin(self) -> None:
        self._stride *= 2
        newest = self._numbers[-1]
        kept = [
            at for at, number in enumerate(self._numbers) if number % self._stride == 0 or number == newest
        ]
        self.rows = [self.rows[at] for at in kept]
        self._numbers = [self._numbers[at] for at in kept]

    def as_columns(self) -> dict[str, list[float | None]]:
        """A list for each figure, with one entry per row."""
        return {name: [row.get(name) for row in self.rows] for name in (*NAMES, *self.named)}


def charts(named: list[str]) -> list[dict[str, Any]]:
    """The charts for a page. `named`: the figures of this run with a prefix."""
    found = []
    for chart in CHARTS:
        curves = [list(curve) for curve in chart.curves]
        if chart.prefix:
            more = [name for name in named if name.startswith(chart.prefix) and name not in NAMES]
            curves += [[name.removeprefix(chart.prefix), name] for name in more]
        if curves:
            found.append(
                {
                    "title": chart.title,
                    "caption": _caption(chart, [label for label, _ in curves]),
                    "curves": curves,
                    "percent": chart.percent,
                    "unit": chart.unit,
                    "least_span": chart.least_span,
                }
            )
    return found


def _caption(chart: Chart, labels: Sequence[str]) -> str:
    more = [text for label, text in chart.explained.items() if label in labels]
    return " ".join([chart.caption, *more])
