"""Judges: what a finished run has learned. Each is a module here with `judge`, and `brief` for ablations.

`any_game` judges every game by what is known of it, `endgame` runs that begin at endings with tables.

A judge is imported only when it is asked for.
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
    """Fatal(CONFIG) if there is no such judge, or it cannot judge this recipe: to be called before hours of
    training, not after them."""
    if recipe.judge not in JUDGES:
        raise Fatal(
            f"recipe {recipe.name}: there is no judge {recipe.judge!r}; there are {', '.join(JUDGES)}",
            Exit.CONFIG,
        )
    _judge_of(recipe).check(recipe)


def judge(trained: Trained, recipe: Recipe, tell: Callable[[str], None]) -> Judgement:
    """The judgement of a run by the recipe's judge."""
    check_judge(recipe)
    found: Judgement = _judge_of(recipe).judge(trained, recipe, tell)
    return found.with_targets(recipe.targets)


def brief(trained: Trained, recipe: Recipe) -> dict[str, float]:
    """A few shares of the last network, to compare variants of a recipe by."""
    figures: dict[str, float] = _judge_of(recipe).brief(trained, recipe)
    return figures


def _judge_of(recipe: Recipe) -> ModuleType:
    return importlib.import_module(f"experiments.judges.{recipe.judge}")
