"""The results of judges: figures with their uncertainty and target, and curves over wall clock. Also finds
the judge of a recipe.

A judge is a module of `lab.experiments.judges` with `judge`, `check`, and `brief` for ablations. `any_game`
judges every game by what is known about it; `endgame` judges runs that begin at endings with tables. A judge
is imported only when needed.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from types import ModuleType
from typing import Any

import msgspec

from azselfplay.host.exits import Exit, Fatal
from azselfplay.lab.experiments.recipe import Recipe
from azselfplay.lab.experiments.training import Trained
from azselfplay.play.elo import wilson

Points = list[tuple[float, float]]
"""(minute, value)"""

JUDGES = ("any_game", "endgame")

SHARES, PLIES = "share of self-play games", "plies of a self-play game"

PANELS = (SHARES, PLIES)
"""Panels whose minutes count wall-clock time since the first game, because the store knows no other clock."""


def check_judge(recipe: Recipe) -> None:
    """Raise Fatal(CONFIG) if there is no such judge, or it cannot judge this recipe. Call this before hours
    of training, not after them."""
    if recipe.judge not in JUDGES:
        raise Fatal(
            f"recipe {recipe.name}: there is no judge {recipe.judge!r}; there are {', '.join(JUDGES)}",
            Exit.CONFIG,
        )
    _judge_of(recipe).check(recipe)


def judge(trained: Trained, recipe: Recipe, tell: Callable[[str], None]) -> Judgement:
    """Return the result of the recipe's judge for a run."""
    check_judge(recipe)
    found: Judgement = _judge_of(recipe).judge(trained, recipe, tell)
    return found.with_targets(recipe.targets)


def brief(trained: Trained, recipe: Recipe) -> dict[str, float]:
    """Return a few shares for the last network, by which variants of a recipe are compared."""
    figures: dict[str, float] = _judge_of(recipe).brief(trained, recipe)
    return figures


def _judge_of(recipe: Recipe) -> ModuleType:
    # Import by name: judges import much, and results can be read without them.
    return importlib.import_module(f"azselfplay.lab.experiments.judges.{recipe.judge}")


@dataclass(frozen=True)
class Measure:
    """One figure of one player. Shares are between 0 and 1."""

    what: str
    player: str
    value: float
    count: int
    """Number of games or positions that were measured."""
    low: float | None = None
    """95 % interval, if one is known."""
    high: float | None = None
    target: float | None = None
    """None: the figure has no target."""
    at_most: bool = False
    """Whether less is better; then the target is an upper limit."""
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
        """The name of this figure's target in recipes; None if the figure is not about the last network or
        its self-play."""
        # Labels look like `trained, 64 simulations, puct`.
        who, _, how = self.player.partition(", ")
        # Targets are only for the trained network and its self-play, not for the players in comparison.
        if who not in ("trained", "self-play"):
            return None
        return f"{self.what}, {how}" if how == "raw policy" else self.what

    def text(self, value: float) -> str:
        """Return `value` in this measure's unit."""
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
        """Return the same judgement with a recipe's targets, which are for the last network and its
        self-play. A target without measurement gets a note."""
        measures = [replace(one, target=targets.get(one.target_name or "")) for one in self.measures]
        # Otherwise nobody would notice a misspelt target.
        missing = sorted(targets.keys() - {one.target_name for one in measures})
        notes = [f"nothing was measured for the target {name!r}" for name in missing]
        return Judgement(measures, self.curves, self.notes + notes)

    def to_json(self) -> dict[str, Any]:
        measures = [{**asdict(one), "reached": one.reached} for one in self.measures]
        return {"measures": measures, "curves": self.curves, "notes": self.notes}

    @staticmethod
    def from_json(found: dict[str, Any]) -> Judgement:
        """Return a judgement from its JSON: the inverse of `to_json`. Other fields are ignored: `reached`
        follows from value and target."""
        return msgspec.convert(found, Judgement)


def share(what: str, player: str, hits: int, count: int, *, at_most: bool = False) -> Measure:
    """Return a share of independent trials, with Wilson's interval. Raises ValueError without trials."""
    if count <= 0:
        raise ValueError(f"{what}: nothing was counted")
    return Measure(what, player, hits / count, count, *wilson(hits, count), at_most=at_most)


def mean_of(values: Sequence[float]) -> float:
    """Return the mean; NaN without values."""
    return sum(values) / len(values) if values else math.nan
