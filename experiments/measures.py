"""The results of judges: figures with their uncertainty and target, and curves over wall clock."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from evaluation.elo import wilson

Points = list[tuple[float, float]]
"""(minute, value)"""


@dataclass(frozen=True)
class Measure:
    """One figure of one player. Shares are between 0 and 1."""

    what: str
    player: str
    value: float
    count: int
    """Games or positions that were measured."""
    low: float | None = None
    """95 % interval, where one is known."""
    high: float | None = None
    target: float | None = None
    """None: the figure has no target."""
    at_most: bool = False
    """Whether less is better; then a target is an upper limit."""
    unit: str = "share"
    """`share` (printed as per cent), `moves`, or empty for a plain number."""
    ms_a_move: float | None = None
    """Milliseconds that the player took for a move, in games played one at a time."""

    @property
    def reached(self) -> bool | None:
        """None without a target."""
        if self.target is None:
            return None
        return self.value <= self.target if self.at_most else self.value >= self.target

    @property
    def target_name(self) -> str | None:
        """The name of a target for this figure in recipes; None if it is not of the last network or its
        self-play."""
        who, _, how = self.player.partition(", ")
        if who not in ("trained", "self-play"):
            return None
        return f"{self.what}, {how}" if how == "raw policy" else self.what

    def text(self, value: float) -> str:
        """`value` in this measure's unit."""
        return f"{100 * value:.1f} %" if self.unit == "share" else f"{value:.2f} {self.unit}".rstrip()


@dataclass
class Judgement:
    """All figures of one judge about one run."""

    measures: list[Measure] = field(default_factory=list)
    curves: dict[str, dict[str, Points]] = field(default_factory=dict)
    """Curves by panel and label."""
    notes: list[str] = field(default_factory=list)

    def add_point(self, panel: str, label: str, minute: float, value: float) -> None:
        self.curves.setdefault(panel, {}).setdefault(label, []).append((minute, value))

    def with_targets(self, targets: Mapping[str, float]) -> Judgement:
        """The same with a recipe's targets, which are for the last network and its self-play. Missing
        measurements are noted."""
        measures = [replace(one, target=targets.get(one.target_name or "")) for one in self.measures]
        missing = sorted(targets.keys() - {one.target_name for one in measures})
        notes = [f"nothing was measured for the target {name!r}" for name in missing]
        return Judgement(measures, self.curves, self.notes + notes)

    def to_json(self) -> dict[str, Any]:
        measures = [{**asdict(one), "reached": one.reached} for one in self.measures]
        return {"measures": measures, "curves": self.curves, "notes": self.notes}

    @staticmethod
    def from_json(found: dict[str, Any]) -> Judgement:
        """The inverse of `to_json`."""
        measures = []
        for one in found["measures"]:
            one.pop("reached")
            measures.append(Measure(**one))
        return Judgement(measures, found["curves"], found["notes"])


def share(what: str, player: str, hits: int, count: int, *, at_most: bool = False) -> Measure:
    """A share of independent trials, with Wilson's interval. Raises ValueError without trials."""
    if count <= 0:
        raise ValueError(f"{what}: nothing was counted")
    return Measure(what, player, hits / count, count, *wilson(hits, count), at_most=at_most)


def mean_of(values: Sequence[float]) -> float:
    """The mean; NaN without values."""
    return sum(values) / len(values) if values else math.nan
