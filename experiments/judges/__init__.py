"""Judges: they measure what a finished run has learned. Each is a module here with `judge`, and `brief` for
ablations.

`any_game` judges every game by what is known about it, `endgame` runs that begin at endings with tables. A
judge is imported only when needed.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import ModuleType

from experiments.measures import Judgement
from experiments.recipe import Recipe
from experiments.training import Trained
from runtime.exits import Exit, Fatal

JUDGES = ("any_game", "endgame")


def check_judge(recipe: Recipe) -> None:
    """Raise Fatal(CONFIG) if there is no such judge, or it cannot judge this recipe. To be called before
    hours of training, not after them."""
    if recipe.judge not in JUDGES:
        raise Fatal(
            f"recipe {recipe.name}: there is no judge {recipe.judge!r}; there are {', '.join(JUDGES)}",
            Exit.CONFIG,
        )
    _judge_of(recipe).check(recipe)


def judge(trained: Trained, recipe: Recipe, tell: Callable[[str], None]) -> Judgement:
    """The result of the recipe's judge for a run."""
    check_judge(recipe)
    found: Judgement = _judge_of(recipe).judge(trained, recipe, tell)
    return found.with_targets(recipe.targets)


def brief(trained: Trained, recipe: Recipe) -> dict[str, float]:
    """A few shares for the last network, by which variants of a recipe are compared."""
    figures: dict[str, float] = _judge_of(recipe).brief(trained, recipe)
    return figures


def _judge_of(recipe: Recipe) -> ModuleType:
    return importlib.import_module(f"experiments.judges.{recipe.judge}")
